-- The effects of this service, one row for each message, written in the transaction of the effect. There is no unique
-- constraint on purpose: a message that is handled twice has two rows.
CREATE TABLE IF NOT EXISTS /*schema*/journal (
    source   TEXT NOT NULL,
    message  TEXT NOT NULL,
    type     TEXT NOT NULL,
    order_id TEXT NOT NULL,
    at       TEXT NOT NULL
);
