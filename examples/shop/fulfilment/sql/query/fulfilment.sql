-- name: Refuse
INSERT INTO /*schema*/oversize (sku) VALUES ($1) ON CONFLICT (sku) DO NOTHING;

-- name: Refused
SELECT COUNT(*) FROM /*schema*/oversize WHERE sku = $1;

-- name: Parcel
INSERT INTO /*schema*/parcels (order_id, state, reason, at) VALUES ($1, $2, $3, $4);

-- name: Decide
INSERT INTO /*schema*/dispatches (order_id, state) VALUES ($1, $2) ON CONFLICT (order_id) DO UPDATE
SET state = CASE WHEN dispatches.state = 'open' OR dispatches.state = 'ready' AND excluded.state <> 'open' THEN excluded.state ELSE dispatches.state END
RETURNING state;

-- name: Readdress
UPDATE /*schema*/dispatches SET number = $2, address = $3 WHERE order_id = $1 AND number < $2;

-- name: NoteChange
-- Records a requested change. Its payment or its end may have arrived before.
INSERT INTO /*schema*/changes (order_id, number, address, fee, state) VALUES ($1, $2, $3, $4, 'asked') ON CONFLICT (order_id, number) DO NOTHING;

-- name: TakeChange
INSERT INTO /*schema*/changes (order_id, number, address, fee, state) VALUES ($1, $2, $3, $4, 'taken')
ON CONFLICT (order_id, number) DO UPDATE SET state = 'taken';

-- name: RefuseChange
-- No row: it was refused before.
INSERT INTO /*schema*/changes (order_id, number, address, fee, state) VALUES ($1, $2, $3, $4, 'refused')
ON CONFLICT (order_id, number) DO UPDATE SET state = 'refused' WHERE changes.state <> 'refused';

-- name: CountUnpaid
SELECT COUNT(*) FROM /*schema*/changes WHERE order_id = $1 AND state = 'asked';

-- name: ChangesToRefuse
SELECT number, address, fee FROM /*schema*/changes WHERE order_id = $1 AND state <> 'refused' ORDER BY number;
