-- What this service did, message by message: written in the transaction of the effect itself. There is no unique
-- constraint on purpose: were a message handled twice, it would stand here twice.
CREATE TABLE IF NOT EXISTS /*schema*/journal (
    source   TEXT NOT NULL,
    message  TEXT NOT NULL,
    type     TEXT NOT NULL,
    order_id TEXT NOT NULL,
    at       TEXT NOT NULL
);
