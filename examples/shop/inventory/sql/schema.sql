CREATE TABLE IF NOT EXISTS /*schema*/stock (
    sku       TEXT PRIMARY KEY,
    delivered BIGINT NOT NULL,                          -- total of all deliveries
    available BIGINT NOT NULL CHECK (available >= 0),
    reserved  BIGINT NOT NULL CHECK (reserved >= 0)     -- available + reserved = delivered
);

-- The state of an order's reservation, for builds without steps. A short one has no row; 'barred': the undo arrived first.
CREATE TABLE IF NOT EXISTS /*schema*/reservations (
    order_id TEXT PRIMARY KEY,
    state    TEXT NOT NULL CHECK (state IN ('reserved', 'released', 'barred')),
    asked    BIGINT NOT NULL DEFAULT 1
);

-- All reservations (quantity above 0) and releases (below 0).
CREATE TABLE IF NOT EXISTS /*schema*/movements (
    order_id TEXT NOT NULL,
    sku      TEXT NOT NULL REFERENCES /*schema*/stock (sku),
    quantity BIGINT NOT NULL,
    at       TEXT NOT NULL
);
