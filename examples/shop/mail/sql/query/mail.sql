-- name: Take
-- No row: the Message-ID belongs to another mail.
INSERT INTO /*schema*/mailbox (message_id, recipient, subject, at) VALUES ($1, $2, $3, $4)
ON CONFLICT (message_id) DO UPDATE SET came = mailbox.came + 1 WHERE mailbox.recipient = $2 AND mailbox.subject = $3;
