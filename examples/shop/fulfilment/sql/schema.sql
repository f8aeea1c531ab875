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
    state    TEXT NOT NULL CHECK (state IN ('open', 'ready', 'gone', 'stopped')), -- ready: it leaves when its changes are paid for
    number   BIGINT NOT NULL DEFAULT 0,  -- of the last change that was taken
    address  TEXT NOT NULL DEFAULT ''    -- '': where the customer lives
);

-- The changes of an order that are known here: asked for (that it is paid for is not known yet), taken, or refused for good.
CREATE TABLE IF NOT EXISTS /*schema*/changes (
    order_id TEXT NOT NULL,
    number   BIGINT NOT NULL,
    address  TEXT NOT NULL,
    fee      BIGINT NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('asked', 'taken', 'refused')),
    PRIMARY KEY (order_id, number)
);
