-- The balances of the customers.
CREATE TABLE IF NOT EXISTS /*schema*/gateway_funds (
    customer TEXT PRIMARY KEY,
    cents    BIGINT NOT NULL CHECK (cents >= 0)
);

-- The ledger of all moves. The key is not unique: the gateway forgets keys after a time, and a key can then be used
-- again. Two moves with one key are a double charge that idempotency keys could not prevent.
CREATE TABLE IF NOT EXISTS /*schema*/gateway_moves (
    id       TEXT PRIMARY KEY,
    kind     TEXT NOT NULL CHECK (kind IN ('charge', 'refund')),
    key      TEXT NOT NULL,
    customer TEXT NOT NULL,
    order_id TEXT NOT NULL,  -- the merchant's id
    cents    BIGINT NOT NULL CHECK (cents >= 0),
    at       TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS gateway_moves_key ON /*schema*/gateway_moves (key);

-- The answer to each idempotency key, until it is forgotten.
CREATE TABLE IF NOT EXISTS /*schema*/gateway_memory (
    key     TEXT PRIMARY KEY,
    request TEXT NOT NULL,              -- '' if it was cancelled before it arrived
    move    TEXT NOT NULL DEFAULT '',   -- the id of the move
    refused TEXT NOT NULL DEFAULT '',   -- or the reason of a refusal
    until   TEXT NOT NULL               -- when it is forgotten
);
