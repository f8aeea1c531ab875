-- A double-entry ledger: each transfer has entries that add up to nothing, and what an account holds is the sum of
-- its entries. What a customer can spend only the gateway knows: seen from here an account may be below nothing for a moment,
-- because answers are settled in another order than money was moved.
CREATE TABLE IF NOT EXISTS /*schema*/accounts (
    id      TEXT PRIMARY KEY,
    balance BIGINT NOT NULL
);

CREATE TABLE IF NOT EXISTS /*schema*/transfers (
    id       TEXT PRIMARY KEY,
    kind     TEXT NOT NULL CHECK (kind IN ('deposit', 'charge', 'refund')),
    order_id TEXT NOT NULL,  -- of a charge or refund; '' of a deposit
    cents    BIGINT NOT NULL CHECK (cents >= 0),
    at       TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS /*schema*/entries (
    transfer TEXT NOT NULL REFERENCES /*schema*/transfers (id),
    account  TEXT NOT NULL,  -- a customer's, or 'shop', or 'bank' (what is outside)
    cents    BIGINT NOT NULL
);

-- What became of the payment of an order, for builds that know no steps. A declined one has no row; 'barred': it was to be undone before it
-- was done.
CREATE TABLE IF NOT EXISTS /*schema*/payments (
    order_id TEXT PRIMARY KEY,
    state    TEXT NOT NULL CHECK (state IN ('taken', 'refunded', 'barred')),
    asked    BIGINT NOT NULL DEFAULT 1
);
