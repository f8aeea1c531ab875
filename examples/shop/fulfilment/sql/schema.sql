-- SKUs that the carrier refuses.
CREATE TABLE IF NOT EXISTS /*schema*/oversize (
    sku TEXT PRIMARY KEY
);

CREATE TABLE IF NOT EXISTS /*schema*/parcels (
    order_id TEXT NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('shipped', 'failed')),
    reason   TEXT NOT NULL,
    at       TEXT NOT NULL
);

-- The state and address of an order's parcel. The first message that decides whether it leaves wins.
CREATE TABLE IF NOT EXISTS /*schema*/dispatches (
    order_id TEXT PRIMARY KEY,
    state    TEXT NOT NULL CHECK (state IN ('open', 'ready', 'gone', 'stopped')), -- ready: leaves when its changes are paid
    number   BIGINT NOT NULL DEFAULT 0,  -- of the last applied change
    address  TEXT NOT NULL DEFAULT ''    -- '': the customer's home address
);

-- The known changes of an order: asked for and not paid yet, taken, or refused.
CREATE TABLE IF NOT EXISTS /*schema*/changes (
    order_id TEXT NOT NULL,
    number   BIGINT NOT NULL,
    address  TEXT NOT NULL,
    fee      BIGINT NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('asked', 'taken', 'refused')),
    PRIMARY KEY (order_id, number)
);
