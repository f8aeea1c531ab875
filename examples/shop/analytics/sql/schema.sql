-- One row for each event of the shop; count them as you like.
CREATE TABLE IF NOT EXISTS /*schema*/happenings (
    type     TEXT NOT NULL,
    order_id TEXT NOT NULL,
    cents    BIGINT NOT NULL,
    at       TEXT NOT NULL
);
