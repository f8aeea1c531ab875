-- name: Refuse
INSERT INTO /*schema*/oversize (sku) VALUES ($1) ON CONFLICT (sku) DO NOTHING;

-- name: Refused
SELECT COUNT(*) FROM /*schema*/oversize WHERE sku = $1;

-- name: Parcel
INSERT INTO /*schema*/parcels (order_id, state, reason, at) VALUES ($1, $2, $3, $4);

-- name: Decide
INSERT INTO /*schema*/dispatches (order_id, state) VALUES ($1, $2) ON CONFLICT (order_id) DO UPDATE
SET state = CASE dispatches.state WHEN 'open' THEN excluded.state ELSE dispatches.state END RETURNING state;

-- name: Readdress
UPDATE /*schema*/dispatches SET number = $2, address = $3 WHERE order_id = $1 AND number < $2;
