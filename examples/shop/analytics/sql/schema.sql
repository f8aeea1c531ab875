-- One row for each event of the shop.
CREATE TABLE IF NOT EXISTS /*schema*/happenings (
    type     TEXT NOT NULL,
    order_id TEXT NOT NULL,
    cents    BIGINT NOT NULL,
    at       TEXT NOT NULL
);

-- The method of each payment: empty if the build that read it has no methods, or if none was given.
CREATE TABLE IF NOT EXISTS /*schema*/payment_methods (
    order_id TEXT NOT NULL,
    method   TEXT NOT NULL
);
