-- name: Orders
SELECT id, cents, state, reason FROM orders ORDER BY id;

-- name: Items
SELECT order_id, sku, CAST(SUM(quantity) AS BIGINT) FROM order_items GROUP BY order_id, sku;

-- name: Accounts
SELECT id, balance FROM accounts ORDER BY id;

-- name: Transfers
SELECT id, kind, order_id, cents FROM transfers ORDER BY id;

-- name: Entries
SELECT transfer, account, cents FROM entries;

-- name: Stock
SELECT sku, delivered, available, reserved FROM stock ORDER BY sku;

-- name: Movements
SELECT order_id, sku, CAST(SUM(quantity) AS BIGINT) FROM movements GROUP BY order_id, sku;

-- name: Mails
SELECT order_id, COUNT(*) FROM mails GROUP BY order_id;

-- name: Outbox
SELECT seq, CAST(id AS TEXT), source, topic, COALESCE(key, ''), type FROM skald_outbox ORDER BY seq;

-- name: Marks
SELECT source, CAST(id AS TEXT), outcome, arrival FROM skald_mark ORDER BY arrival;

-- name: Journal
SELECT source, message, type, order_id FROM journal;
