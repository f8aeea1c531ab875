-- name: Happening
INSERT INTO /*schema*/happenings (type, order_id, cents, at) VALUES ($1, $2, $3, $4);

-- name: PaymentMethod
INSERT INTO /*schema*/payment_methods (order_id, method) VALUES ($1, $2);
