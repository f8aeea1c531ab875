-- The tables of the programs in write/, consume/, compensate/, charge/ and orchestrate/. Skald's own are made by `skald migrate`.
CREATE TABLE orders (
	id        text PRIMARY KEY,
	sku       text NOT NULL,
	quantity  integer NOT NULL,
	cancelled boolean NOT NULL DEFAULT false
);
CREATE TABLE stock (
	sku  text PRIMARY KEY,
	free integer NOT NULL
);
INSERT INTO stock (sku, free) VALUES ('tea', 10);
CREATE TABLE payments (
	order_id text NOT NULL,
	cents    integer NOT NULL -- below 0: given back
);
CREATE TABLE receipts (
	order_id text PRIMARY KEY,
	receipt  text NOT NULL
);
