-- All mails that the server has accepted. It keeps all Message-IDs: a mail that arrives again is counted and not
-- delivered again.
CREATE TABLE IF NOT EXISTS /*schema*/mailbox (
    message_id TEXT PRIMARY KEY,
    recipient  TEXT NOT NULL,
    subject    TEXT NOT NULL,
    came       BIGINT NOT NULL DEFAULT 1,
    at         TEXT NOT NULL
);
