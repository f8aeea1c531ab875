-- name: Examine
SELECT (SELECT journal_mode FROM pragma_journal_mode), (SELECT synchronous FROM pragma_synchronous), (SELECT page_count * page_size FROM pragma_page_count, pragma_page_size),
	(SELECT coalesce(file, '') FROM pragma_database_list WHERE name = 'main'),
	coalesce((SELECT CAST(ran_seconds AS INTEGER) FROM skald_retention WHERE name = 'skald_outbox'),
		CASE WHEN EXISTS (SELECT 1 FROM skald_outbox) OR EXISTS (SELECT 1 FROM skald_mark) THEN -1 ELSE -2 END);
