CREATE TABLE IF NOT EXISTS /*schema*/stock (
    sku       TEXT PRIMARY KEY,
    delivered BIGINT NOT NULL,                          -- what the warehouse ever got
    available BIGINT NOT NULL CHECK (available >= 0),
    reserved  BIGINT NOT NULL CHECK (reserved >= 0)     -- available and reserved make up delivered
);

-- What became of the reservation of an order, for builds that know no steps. A short one has no row; 'barred': it was to be undone before it was done.
CREATE TABLE IF NOT EXISTS /*schema*/reservations (
    order_id TEXT PRIMARY KEY,
    state    TEXT NOT NULL CHECK (state IN ('reserved', 'released', 'barred')),
    asked    BIGINT NOT NULL DEFAULT 1
);

-- Each piece that was ever put aside (quantity above 0) or put back (below).
CREATE TABLE IF NOT EXISTS /*schema*/movements (
    order_id TEXT NOT NULL,
    sku      TEXT NOT NULL REFERENCES /*schema*/stock (sku),
    quantity BIGINT NOT NULL,
    at       TEXT NOT NULL
);
