-- name: Happening
INSERT INTO /*schema*/happenings (type, order_id, cents, at) VALUES ($1, $2, $3, $4);
