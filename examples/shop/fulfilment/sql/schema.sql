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
