-- name: Deliver
INSERT INTO /*schema*/stock (sku, delivered, available, reserved) VALUES ($1, $2, $2, 0) ON CONFLICT (sku) DO NOTHING;

-- name: State
-- Returns and locks the state of an order's reservation; it becomes $2 if there was none.
INSERT INTO /*schema*/reservations (order_id, state) VALUES ($1, $2)
ON CONFLICT (order_id) DO UPDATE SET asked = reservations.asked + 1 RETURNING state, asked;

-- name: Released
UPDATE /*schema*/reservations SET state = 'released' WHERE order_id = $1 AND state = 'reserved';

-- name: PutAside
UPDATE /*schema*/stock SET available = available - $2, reserved = reserved + $2 WHERE sku = $1 AND available >= $2;

-- name: PutBack
UPDATE /*schema*/stock SET available = available + $2, reserved = reserved - $2 WHERE sku = $1;

-- name: Movement
INSERT INTO /*schema*/movements (order_id, sku, quantity, at) VALUES ($1, $2, $3, $4);
