-- name: Note
INSERT INTO /*schema*/journal (source, message, type, order_id, at) VALUES ($1, $2, $3, $4, $5);
