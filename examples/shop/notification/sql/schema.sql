-- The sent mails. There is no unique constraint on purpose: a mail that is sent twice has two rows.
CREATE TABLE IF NOT EXISTS /*schema*/mails (
    order_id  TEXT NOT NULL,
    recipient TEXT NOT NULL,
    subject   TEXT NOT NULL,
    at        TEXT NOT NULL
);
