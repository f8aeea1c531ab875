-- name: Orders
SELECT id, cents, state, reason FROM /*schema*/orders ORDER BY id;

-- name: Answers
-- The stored answers to POSTs, by key.
SELECT key, code, result FROM /*schema*/skald_keys WHERE consumer = 'http:POST /orders' ORDER BY key;

-- name: Receipts
SELECT key, code, body FROM /*schema*/receipts ORDER BY key;

-- name: Items
SELECT order_id, sku, CAST(SUM(quantity) AS BIGINT) FROM /*schema*/order_items GROUP BY order_id, sku;

-- name: Accounts
SELECT id, balance FROM /*schema*/accounts ORDER BY id;

-- name: Transfers
SELECT id, kind, order_id, cents FROM /*schema*/transfers ORDER BY id;

-- name: Entries
SELECT transfer, account, cents FROM /*schema*/entries;

-- name: Moves
SELECT id, kind, order_id, cents, key FROM /*schema*/gateway_moves ORDER BY at, id;

-- name: Stock
SELECT sku, delivered, available, reserved FROM /*schema*/stock ORDER BY sku;

-- name: Movements
SELECT order_id, sku, CAST(SUM(quantity) AS BIGINT) FROM /*schema*/movements GROUP BY order_id, sku;

-- name: Cancellations
SELECT order_id, answer FROM /*schema*/cancellations;

-- name: Changes
SELECT order_id, number, address, fee, paid, taken, refused, undone FROM /*schema*/changes ORDER BY order_id, number;

-- name: Dispatches
SELECT order_id, state, number, address FROM /*schema*/dispatches;

-- name: Parcels
SELECT order_id, state, COUNT(*) FROM /*schema*/parcels GROUP BY order_id, state;

-- name: Mails
SELECT order_id, COUNT(*) FROM /*schema*/mails GROUP BY order_id;

-- name: Mailbox
SELECT message_id, recipient, subject FROM /*schema*/mailbox;

-- name: Outbox
SELECT seq, CAST(id AS TEXT), source, topic, COALESCE(key, ''), type FROM /*schema*/skald_outbox ORDER BY seq;

-- name: Marks
SELECT source, key, status, arrival FROM /*schema*/skald_keys WHERE source <> '' AND consumer NOT LIKE '%tracker' ORDER BY arrival;

-- name: Journal
SELECT source, message, type, order_id FROM /*schema*/journal;

-- name: Sagas
SELECT key, status, stuck FROM /*schema*/skald_saga WHERE name = 'order';

-- name: Tracked
-- The tracked status of orders.
SELECT key, state FROM /*schema*/skald_tracked WHERE flow = 'order';

-- name: Steps
SELECT saga, occurrence, state FROM /*schema*/skald_steps;
