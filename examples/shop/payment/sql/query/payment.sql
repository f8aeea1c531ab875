-- name: OpenAccount
INSERT INTO /*schema*/accounts (id, balance) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING;

-- name: State
-- Returns and locks the state of an order's payment; it becomes $2 if there was none.
INSERT INTO /*schema*/payments (order_id, state) VALUES ($1, $2)
ON CONFLICT (order_id) DO UPDATE SET asked = payments.asked + 1 RETURNING state, asked;

-- name: Refunded
UPDATE /*schema*/payments SET state = 'refunded' WHERE order_id = $1 AND state = 'taken';

-- name: Withdraw
UPDATE /*schema*/accounts SET balance = balance - $2 WHERE id = $1;

-- name: Deposit
UPDATE /*schema*/accounts SET balance = balance + $2 WHERE id = $1;

-- name: Transfer
INSERT INTO /*schema*/transfers (id, kind, order_id, cents, at) VALUES ($1, $2, $3, $4, $5);

-- name: Entries
INSERT INTO /*schema*/entries (transfer, account, cents) VALUES ($1, $2, -CAST($4 AS BIGINT)), ($1, $3, CAST($4 AS BIGINT));
