-- name: Interesting
-- The orders worth telling first: those of which much had to be undone.
SELECT id, state, reason FROM /*schema*/orders ORDER BY CASE reason
    WHEN 'shipping_failed' THEN 1 WHEN 'cancelled_by_customer' THEN 1 WHEN 'out_of_stock' THEN 2 WHEN '' THEN 3 ELSE 4 END, id;
