-- name: Mail
INSERT INTO /*schema*/mails (order_id, recipient, subject, at) VALUES ($1, $2, $3, $4);
