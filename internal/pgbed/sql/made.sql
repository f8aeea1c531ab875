-- Saving and restoring the state of tables. The catalogue lists the tables.

-- name: Schemas
SELECT array_agg(oid::bigint ORDER BY oid) FROM pg_namespace WHERE nspname = ANY ($1);

-- name: Filled
SELECT coalesce(array_agg(oid::regclass::text ORDER BY oid), ARRAY[]::text[]) FROM pg_class
	WHERE relkind = 'r' AND relnamespace::bigint = ANY ($1) AND pg_relation_size(oid) > 0;

-- name: Sequences
SELECT coalesce(json_object_agg(oid::bigint, pg_sequence_last_value(oid)), '{}')::text FROM pg_class
	WHERE relkind = 'S' AND relnamespace::bigint = ANY ($1);

-- name: MakeAnew
-- a DO takes no parameters; DELETE is faster than TRUNCATE for tables with few rows
DO $anew$ DECLARE r record; filled boolean; BEGIN
	SET LOCAL session_replication_role = replica; -- disables triggers and foreign keys
	FOR r IN SELECT c.oid::regclass AS it, k.value AS rows FROM pg_class c LEFT JOIN json_each(/*rows*/) k ON k.key = c.oid::regclass::text
		WHERE c.relkind = 'r' AND c.relnamespace::bigint = ANY (/*schemas*/) AND (k.key IS NOT NULL OR pg_relation_size(c.oid) > 0) LOOP
		EXECUTE format('SELECT EXISTS (SELECT FROM %s)', r.it) INTO filled;
		IF filled THEN EXECUTE format('DELETE FROM %s', r.it); END IF;
		IF r.rows IS NOT NULL THEN
			EXECUTE format('INSERT INTO %s OVERRIDING SYSTEM VALUE SELECT * FROM json_populate_recordset(NULL::%1$s, $1)', r.it) USING r.rows;
		END IF;
	END LOOP;
	PERFORM setval(s.seqrelid, coalesce(k.value::bigint, s.seqstart), k.value IS NOT NULL) FROM pg_sequence s
		JOIN pg_class c ON c.oid = s.seqrelid LEFT JOIN json_each_text(/*sequences*/) k ON k.key = c.oid::bigint::text
		WHERE c.relnamespace::bigint = ANY (/*schemas*/) AND pg_sequence_last_value(s.seqrelid) IS DISTINCT FROM k.value::bigint;
END $anew$;
