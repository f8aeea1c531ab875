-- name: Refuse
INSERT INTO oversize (sku) VALUES ($1) ON CONFLICT (sku) DO NOTHING;

-- name: Refused
SELECT COUNT(*) FROM oversize WHERE sku = $1;

-- name: Parcel
INSERT INTO parcels (order_id, state, reason, at) VALUES ($1, $2, $3, $4);
