-- name: Price
INSERT INTO /*schema*/prices (sku, cents) VALUES ($1, $2) ON CONFLICT (sku) DO NOTHING;

-- name: PriceOf
SELECT cents FROM /*schema*/prices WHERE sku = $1;

-- name: Place
INSERT INTO /*schema*/orders (id, customer, cents, state) VALUES ($1, $2, $3, 'pending');

-- name: Receipt
INSERT INTO /*schema*/receipts (key, code, body) VALUES ($1, $2, $3);

-- name: PlaceItem
INSERT INTO /*schema*/order_items (order_id, line, sku, quantity, cents) VALUES ($1, $2, $3, $4, $5);

-- name: ByID
SELECT customer, cents, state, reason FROM /*schema*/orders WHERE id = $1;

-- name: Items
SELECT sku, quantity, cents FROM /*schema*/order_items WHERE order_id = $1 ORDER BY line;

-- name: Status
-- One statement, so that the state and the history are consistent.
SELECT o.state, o.reason, h.state, h.at FROM /*schema*/orders o JOIN /*schema*/order_history h ON h.order_id = o.id
WHERE o.id = $1 ORDER BY h.step;

-- name: RecordEvent
-- Locks the order: later reads in this transaction return the latest data.
UPDATE /*schema*/orders SET
    taken    = taken    OR $2 = 'payment.taken',
    declined = declined OR $2 = 'payment.declined',
    refunded = refunded OR $2 = 'payment.refunded',
    reserved = reserved OR $2 = 'stock.reserved',
    short    = short    OR $2 = 'stock.short',
    released = released OR $2 = 'stock.released',
    shipped  = shipped  OR $2 = 'parcel.shipped',
    failed   = failed   OR $2 = 'parcel.failed'
WHERE id = $1;

-- name: AnswerCancellation
UPDATE /*schema*/cancellations SET answer = CASE WHEN $2 = 'parcel.stopped' THEN 'stopped' ELSE 'gone' END
WHERE order_id = $1;

-- name: Facts
-- One row for each change of the order, or one row if it has none.
SELECT o.state, o.taken, o.declined, o.refunded, o.reserved, o.short, o.released, o.shipped, o.failed,
    c.order_id IS NOT NULL, COALESCE(c.answer = 'stopped', FALSE), COALESCE(c.answer = 'gone', FALSE),
    w.order_id IS NOT NULL, COALESCE(w.paid, FALSE), COALESCE(w.declined, FALSE), COALESCE(w.taken, FALSE),
    COALESCE(w.refused, FALSE), COALESCE(w.undone, FALSE)
FROM /*schema*/orders o LEFT JOIN /*schema*/cancellations c ON c.order_id = o.id LEFT JOIN /*schema*/changes w ON w.order_id = o.id
WHERE o.id = $1;

-- name: Move
UPDATE /*schema*/orders SET state = $2, reason = $3 WHERE id = $1;

-- name: Remember
INSERT INTO /*schema*/order_history (order_id, step, state, at)
SELECT $1, COUNT(*), $2, $3 FROM /*schema*/order_history WHERE order_id = $1;

-- name: Lock
-- Locks the order until the transaction ends: later reads return the latest data.
UPDATE /*schema*/orders SET state = state WHERE id = $1;

-- name: AskToCancel
INSERT INTO /*schema*/cancellations (order_id, at) VALUES ($1, $2) ON CONFLICT (order_id) DO NOTHING;

-- name: LastChange
SELECT number, address FROM /*schema*/changes WHERE order_id = $1 ORDER BY number DESC LIMIT 1;

-- name: AskToChange
INSERT INTO /*schema*/changes (order_id, number, address, fee) VALUES ($1, $2, $3, $4);

-- name: RecordChange
UPDATE /*schema*/changes SET
    paid     = paid     OR $3 = 'change.paid',
    declined = declined OR $3 = 'change.declined',
    taken    = taken    OR $3 = 'change.taken',
    refused  = refused  OR $3 = 'change.refused',
    undone   = undone   OR $3 = 'change.undone'
WHERE order_id = $1 AND number = $2;

-- name: Cancellation
SELECT answer FROM /*schema*/cancellations WHERE order_id = $1;

-- name: Changes
SELECT address, fee, paid, declined, taken, refused, undone FROM /*schema*/changes WHERE order_id = $1 ORDER BY number;
