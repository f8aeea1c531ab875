CREATE TABLE IF NOT EXISTS /*schema*/prices (
    sku   TEXT PRIMARY KEY,
    cents BIGINT NOT NULL CHECK (cents >= 0)
);

CREATE TABLE IF NOT EXISTS /*schema*/orders (
    id       TEXT PRIMARY KEY,
    customer TEXT NOT NULL,
    cents    BIGINT NOT NULL,
    state    TEXT NOT NULL CHECK (state IN
        ('pending', 'paid', 'reserved', 'shipped', 'confirmed', 'cancelling', 'cancelled')),
    reason   TEXT NOT NULL DEFAULT '',
    -- The events of other services that have arrived. Different topics can arrive in any order.
    taken    BOOLEAN NOT NULL DEFAULT FALSE,
    declined BOOLEAN NOT NULL DEFAULT FALSE,
    refunded BOOLEAN NOT NULL DEFAULT FALSE,
    reserved BOOLEAN NOT NULL DEFAULT FALSE,
    short    BOOLEAN NOT NULL DEFAULT FALSE,
    released BOOLEAN NOT NULL DEFAULT FALSE,
    shipped  BOOLEAN NOT NULL DEFAULT FALSE,
    failed   BOOLEAN NOT NULL DEFAULT FALSE
);

CREATE TABLE IF NOT EXISTS /*schema*/order_items (
    order_id TEXT NOT NULL REFERENCES /*schema*/orders (id),
    line     BIGINT NOT NULL,
    sku      TEXT NOT NULL,
    quantity BIGINT NOT NULL CHECK (quantity > 0),
    cents    BIGINT NOT NULL,
    PRIMARY KEY (order_id, line)
);

CREATE TABLE IF NOT EXISTS /*schema*/order_history (
    order_id TEXT NOT NULL REFERENCES /*schema*/orders (id),
    step     BIGINT NOT NULL,
    state    TEXT NOT NULL,
    at       TEXT NOT NULL,
    PRIMARY KEY (order_id, step)
);

-- The answers to POSTs, as customers recorded them: several rows if a key was posted several times.
CREATE TABLE IF NOT EXISTS /*schema*/receipts (
    key  TEXT NOT NULL,
    code BIGINT NOT NULL,
    body TEXT NOT NULL
);

-- Requests of customers after they placed the order. Fulfilment answers them: it knows whether the parcel has left.
CREATE TABLE IF NOT EXISTS /*schema*/cancellations (
    order_id TEXT PRIMARY KEY REFERENCES /*schema*/orders (id),
    at       TEXT NOT NULL,
    answer   TEXT NOT NULL DEFAULT '' CHECK (answer IN ('', 'stopped', 'gone'))
);

CREATE TABLE IF NOT EXISTS /*schema*/changes (
    order_id TEXT NOT NULL REFERENCES /*schema*/orders (id),
    number   BIGINT NOT NULL,
    address  TEXT NOT NULL,
    fee      BIGINT NOT NULL,
    -- The events of Payment and Fulfilment that have arrived, in any order.
    paid     BOOLEAN NOT NULL DEFAULT FALSE,
    declined BOOLEAN NOT NULL DEFAULT FALSE,
    taken    BOOLEAN NOT NULL DEFAULT FALSE,
    refused  BOOLEAN NOT NULL DEFAULT FALSE,
    undone   BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (order_id, number)
);
