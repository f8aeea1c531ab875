-- What the carrier does not take.
CREATE TABLE IF NOT EXISTS /*schema*/oversize (
    sku TEXT PRIMARY KEY
);

CREATE TABLE IF NOT EXISTS /*schema*/parcels (
    order_id TEXT NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('shipped', 'failed')),
    reason   TEXT NOT NULL,
    at       TEXT NOT NULL
);

-- Whether the parcel of an order has left or must not, and where it goes. Whoever comes first decides.
CREATE TABLE IF NOT EXISTS /*schema*/dispatches (
    order_id TEXT PRIMARY KEY,
    state    TEXT NOT NULL CHECK (state IN ('open', 'gone', 'stopped')),
    number   BIGINT NOT NULL DEFAULT 0,  -- of the last change that was taken
    address  TEXT NOT NULL DEFAULT ''    -- '': where the customer lives
);
