-- The tables of the programs in write/ and consume/. Skald's own are made by `skald migrate`.
CREATE TABLE orders (
	id       text PRIMARY KEY,
	sku      text NOT NULL,
	quantity integer NOT NULL
);
CREATE TABLE stock (
	sku  text PRIMARY KEY,
	free integer NOT NULL
);
INSERT INTO stock (sku, free) VALUES ('tea', 10);
