-- Every mail that the server has ever taken. It forgets nothing: a mail that comes again under its Message-ID is counted,
-- and not delivered again.
CREATE TABLE IF NOT EXISTS /*schema*/mailbox (
    message_id TEXT PRIMARY KEY,
    recipient  TEXT NOT NULL,
    subject    TEXT NOT NULL,
    came       BIGINT NOT NULL DEFAULT 1,
    at         TEXT NOT NULL
);
