-- name: Refuse
INSERT INTO /*schema*/oversize (sku) VALUES ($1) ON CONFLICT (sku) DO NOTHING;

-- name: Refused
SELECT COUNT(*) FROM /*schema*/oversize WHERE sku = $1;

-- name: Parcel
INSERT INTO /*schema*/parcels (order_id, state, reason, at) VALUES ($1, $2, $3, $4);
