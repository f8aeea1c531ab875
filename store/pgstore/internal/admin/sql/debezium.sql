-- name: ExaminePublications
-- The publications in the output of skald debezium config: whole rows of the root, and only INSERTs.
SELECT coalesce(string_agg(quote_ident(p.pubname), ', ' ORDER BY p.pubname), '')
FROM pg_catalog.pg_publication_rel AS r JOIN pg_catalog.pg_publication AS p ON p.oid = r.prpubid
WHERE r.prrelid = '/*schema*/skald_outbox'::regclass AND r.prattrs IS NULL AND p.pubviaroot AND p.pubinsert AND NOT p.pubupdate;

-- name: ExamineColumns
-- Counts without reading values.
SELECT count(data), count(data_bytes), count(key_bytes) FROM (
	SELECT data, data_bytes, key_bytes FROM /*schema*/skald_outbox ORDER BY seq DESC LIMIT $1::integer) AS o;
