-- One row for each event of the shop; count them as you like.
CREATE TABLE IF NOT EXISTS /*schema*/happenings (
    type     TEXT NOT NULL,
    order_id TEXT NOT NULL,
    cents    BIGINT NOT NULL,
    at       TEXT NOT NULL
);

-- How each payment was made: nothing where the build that read it knows no methods, or nobody said.
CREATE TABLE IF NOT EXISTS /*schema*/payment_methods (
    order_id TEXT NOT NULL,
    method   TEXT NOT NULL
);
