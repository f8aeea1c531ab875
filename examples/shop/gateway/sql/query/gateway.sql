-- name: Fund
INSERT INTO /*schema*/gateway_funds (customer, cents) VALUES ($1, $2) ON CONFLICT (customer) DO NOTHING;

-- name: Expire
DELETE FROM /*schema*/gateway_memory WHERE key = $1 AND until <= $2;

-- name: Remember
-- Waits for another transaction with the same key.
INSERT INTO /*schema*/gateway_memory (key, request, until) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING;

-- name: Recall
SELECT request, move, refused FROM /*schema*/gateway_memory WHERE key = $1;

-- name: Answer
UPDATE /*schema*/gateway_memory SET move = $2, refused = $3 WHERE key = $1;

-- name: Forget
UPDATE /*schema*/gateway_memory SET until = $2 WHERE key = $1;

-- name: Take
UPDATE /*schema*/gateway_funds SET cents = cents - $2 WHERE customer = $1 AND cents >= $2;

-- name: Give
UPDATE /*schema*/gateway_funds SET cents = cents + $2 WHERE customer = $1;

-- name: Move
INSERT INTO /*schema*/gateway_moves (id, kind, key, customer, order_id, cents, at) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: Moves
SELECT id, kind, key, customer, order_id, cents, at FROM /*schema*/gateway_moves WHERE order_id = $1 ORDER BY at, id;

-- name: Find
SELECT id, kind, key, customer, order_id, cents FROM /*schema*/gateway_moves WHERE key = $1 ORDER BY at, id LIMIT 1;
