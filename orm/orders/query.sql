-- name: Place :exec
INSERT INTO orders (id, cents) VALUES ($1, $2);
