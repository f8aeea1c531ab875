package main_test

import (
	"path/filepath"
	"testing"
)

// A message that the broker refused is given up once, with who did it and why; one that only waits for it
// stays.
func TestOutboxDrop(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	env := []string{"SKALD_STORE=sqlite:" + path}
	start(t, env, "migrate").expect(0)
	exec1(t, path,
		`INSERT INTO skald_deferred (seq, bucket, id, source, topic, key, type, content_type, time, attempts, reason, due)
		VALUES (1, 0, 'refused', '/o', 't', 'k', 'x', '', '2026-01-01T00:00:00Z', 3, 'too large', 0), (2, 0, 'waits', '/o', 't', 'k', 'x', '', '2026-01-01T00:00:00Z', 0, '', 0)`)
	start(t, env, "outbox", "drop", "refused").expect(2, "--reason")
	start(t, env, "outbox", "drop", "waits", "--reason", "x").expect(4, "waits")
	start(t, env, "outbox", "drop", "refused", "--reason", "it is 2 MB", "--by", "ann").expect(0)
	start(t, env, "outbox", "drop", "refused", "--reason", "x").expect(4, "refused")
	if left, noted := number(t.Context(), path, "SELECT sum(seq) FROM skald_deferred"),
		number(t.Context(), path,
			"SELECT count(*) FROM skald_audit WHERE author = 'ann' AND reason = 'it is 2 MB' AND action = 'outbox drop' AND id = 'refused'"); left != 2 || noted != 1 {
		t.Errorf("left is %d, noted %d", left, noted)
	}
}
