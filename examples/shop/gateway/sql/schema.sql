-- What the customers of the gateway can spend.
CREATE TABLE IF NOT EXISTS /*schema*/gateway_funds (
    customer TEXT PRIMARY KEY,
    cents    BIGINT NOT NULL CHECK (cents >= 0)
);

-- The ledger: every cent that was ever moved. The key is not unique: what a key was for may be forgotten, and it is used
-- again. Who finds two has found what no idempotency key could keep from happening.
CREATE TABLE IF NOT EXISTS /*schema*/gateway_moves (
    id       TEXT PRIMARY KEY,
    kind     TEXT NOT NULL CHECK (kind IN ('charge', 'refund')),
    key      TEXT NOT NULL,
    customer TEXT NOT NULL,
    order_id TEXT NOT NULL,  -- as the merchant says
    cents    BIGINT NOT NULL CHECK (cents >= 0),
    at       TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS gateway_moves_key ON /*schema*/gateway_moves (key);

-- The answer to each idempotency key, until it is forgotten.
CREATE TABLE IF NOT EXISTS /*schema*/gateway_memory (
    key     TEXT PRIMARY KEY,
    request TEXT NOT NULL,              -- what was asked for; '' where it was cancelled before
    move    TEXT NOT NULL DEFAULT '',   -- the id of what was moved
    refused TEXT NOT NULL DEFAULT '',   -- or why nothing was
    until   TEXT NOT NULL               -- when it is forgotten
);
