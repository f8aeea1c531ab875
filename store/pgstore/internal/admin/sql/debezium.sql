-- name: ExaminePublications
-- Returns the publications that look like the one of skald debezium config: they publish whole rows as rows of skald_outbox, and only INSERTs.
SELECT coalesce(string_agg(quote_ident(p.pubname), ', ' ORDER BY p.pubname), '')
FROM pg_catalog.pg_publication_rel AS r JOIN pg_catalog.pg_publication AS p ON p.oid = r.prpubid
WHERE r.prrelid = '/*schema*/skald_outbox'::regclass AND r.prattrs IS NULL AND p.pubviaroot AND p.pubinsert AND NOT p.pubupdate;

-- name: ExamineColumns
-- Counts values without reading them.
SELECT count(data), count(data_bytes), count(key_bytes) FROM (
	SELECT data, data_bytes, key_bytes FROM /*schema*/skald_outbox ORDER BY seq DESC LIMIT $1::integer) AS o;
