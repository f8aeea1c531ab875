-- name: Deliver
INSERT INTO stock (sku, delivered, available, reserved) VALUES ($1, $2, $2, 0) ON CONFLICT (sku) DO NOTHING;

-- name: State
-- The state of an order's reservation, which is $2 if there was none. Locks it.
INSERT INTO reservations (order_id, state) VALUES ($1, $2)
ON CONFLICT (order_id) DO UPDATE SET asked = reservations.asked + 1 RETURNING state;

-- name: Released
UPDATE reservations SET state = 'released' WHERE order_id = $1;

-- name: PutAside
UPDATE stock SET available = available - $2, reserved = reserved + $2 WHERE sku = $1 AND available >= $2;

-- name: PutBack
UPDATE stock SET available = available + $2, reserved = reserved - $2 WHERE sku = $1;

-- name: Movement
INSERT INTO movements (order_id, sku, quantity, at) VALUES ($1, $2, $3, $4);
