-- A double-entry ledger: the entries of each transfer add up to 0, and the balance of an account is the sum of its
-- entries. Only the gateway knows what a customer can spend. Here a balance may be negative for a moment, because
-- answers can be recorded in another order than the money was moved.
CREATE TABLE IF NOT EXISTS /*schema*/accounts (
    id      TEXT PRIMARY KEY,
    balance BIGINT NOT NULL
);

CREATE TABLE IF NOT EXISTS /*schema*/transfers (
    id       TEXT PRIMARY KEY,
    kind     TEXT NOT NULL CHECK (kind IN ('deposit', 'charge', 'refund')),
    order_id TEXT NOT NULL,  -- '' for a deposit
    cents    BIGINT NOT NULL CHECK (cents >= 0),
    at       TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS /*schema*/entries (
    transfer TEXT NOT NULL REFERENCES /*schema*/transfers (id),
    account  TEXT NOT NULL,  -- a customer, 'shop', or 'bank' (outside of the shop)
    cents    BIGINT NOT NULL
);

-- The state of an order's payment, for builds without steps. A declined one has no row; 'barred': the undo arrived
-- first.
CREATE TABLE IF NOT EXISTS /*schema*/payments (
    order_id TEXT PRIMARY KEY,
    state    TEXT NOT NULL CHECK (state IN ('taken', 'refunded', 'barred')),
    asked    BIGINT NOT NULL DEFAULT 1
);
