-- The mails that were sent. There is no unique constraint on purpose: were a mail sent twice, it would stand here twice.
CREATE TABLE IF NOT EXISTS /*schema*/mails (
    order_id  TEXT NOT NULL,
    recipient TEXT NOT NULL,
    subject   TEXT NOT NULL,
    at        TEXT NOT NULL
);
