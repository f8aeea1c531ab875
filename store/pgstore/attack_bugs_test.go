package pgstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/pgbed"
	"github.com/skald-go/skald/store"
)

// Each well-known bug is found by its test, which the correct code passes.

// carrier reads the outbox, correctly or not.
type carrier interface {
	turn(ctx context.Context, limit int) error
	came() []store.Row
}

func (f *follower) came() []store.Row { return f.rows }

// naive is a reader with a cursor in the rows' own columns.
type naive struct {
	b         *bed
	sql       string // the rows after the cursor, which is args
	txid, seq int64
	rows      []store.Row
}

func (n *naive) came() []store.Row { return n.rows }

func (n *naive) turn(ctx context.Context, limit int) error {
	rows, err := n.b.pool.Query(ctx, n.b.q(n.sql), n.txid, n.seq, limit)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r store.Row
		if err := rows.Scan(&n.txid, &n.seq, &r.Key, &r.Data); err != nil {
			return err
		}
		r.Seq = n.seq
		n.rows = append(n.rows, r)
	}
	return rows.Err()
}

// ordered runs two writers in every order of their statements, on one key and on two, with a turn of the
// reader in each gap. A writer takes its transaction number, locks the key and counts, writes, and commits.
func ordered(t *testing.T, b *bed, r carrier) error {
	ctx := context.Background()
	b.exec(t, `DROP TABLE IF EXISTS {hot}`)
	b.exec(t, `CREATE TABLE {hot} (key text PRIMARY KEY, n integer NOT NULL)`)
	s := New(b.actorPool(t, "writers "+b.name()), &Options{Schema: b.schema})
	want := map[string]int{}
	write := func(key string) func(a *actor) error {
		return func(a *actor) error {
			return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
				a.gate()
				if _, err := tx.Exec(ctx, `SELECT pg_current_xact_id()`); err != nil {
					return err
				}
				a.gate()
				var n int
				if err := tx.QueryRow(ctx, b.q(`UPDATE {hot} SET n = n + 1 WHERE key = $1 RETURNING n`),
					key).Scan(&n); err != nil {
					return err
				}
				a.gate()
				if err := s.Write(ctx, tx,
					store.Effect{Rows: []skald.Message{numbered(key, n)}}); err != nil {
					return err
				}
				a.gate()
				return nil
			})
		}
	}
	for _, keys := range []int{1, 2} {
		for i, merge := range merges(4, 4) {
			ks := [2]string{fmt.Sprint("a", keys, ".", i), fmt.Sprint("a", keys, ".", i)}
			if keys == 2 {
				ks[1] = fmt.Sprint("b.", i)
			}
			for _, k := range ks {
				want[k]++
				b.exec(t, `INSERT INTO {hot} VALUES ($1, 0) ON CONFLICT DO NOTHING`, k)
			}
			one, two := act("writers "+b.name(), write(ks[0])), act("writers "+b.name(), write(ks[1]))
			if err := play(ctx, b.pool, merge, one, two,
				func() error { return r.turn(ctx, 100) }); err != nil {
				return fmt.Errorf("%s: %w", written(merge), err)
			}
			if err := r.turn(ctx, 100); err != nil {
				return err
			}
			if err := inOrder(r.came(), want); err != nil {
				return fmt.Errorf("%d keys, %s: %w", keys, written(merge), err)
			}
		}
	}
	return nil
}

// inOrder returns an error unless the rows of each key are 1, 2, 3, …, n.
func inOrder(rows []store.Row, want map[string]int) error {
	last := map[string]int{}
	for _, r := range rows {
		var n int
		if _, err := fmt.Sscanf(strings.ReplaceAll(string(r.Data), " ", ""), `{"n":%d}`, &n); err != nil {
			return err
		}
		if k := string(r.Key); n != last[k]+1 {
			return fmt.Errorf("inverted or lost: key %s: %d arrived after %d", k, n, last[k])
		}
		last[string(r.Key)] = n
	}
	for k, n := range want {
		if last[k] != n {
			return fmt.Errorf("lost: key %s: %d of %d arrived", k, last[k], n)
		}
	}
	return nil
}

// replaced replaces a statement of Skald.
func replaced(s *Store, name, sql string) {
	s.pg.SQL[name] = strings.ReplaceAll(sql, "/*schema*/", s.pg.Prefix)
}

const bareProgress = `UPDATE /*schema*/skald_shard SET base = coalesce($4::text, base), tip = coalesce($5::text, tip), seq = coalesce($6::bigint, seq),
	incarnation = coalesce($7::text, incarnation), changed_at = clock_timestamp() WHERE id = $1::integer AND `

// flushed commits a row in a transaction that is not flushed, opens a window, and checks that its rows,
// which a relay would now publish, are on disk.
func flushed(t *testing.T, b *bed, tick func(ctx context.Context, base string) (string, error)) error {
	ctx := context.Background()
	base := ""
	for i := range 40 {
		conn, err := b.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		var behind string
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx,
				b.q(`SET LOCAL synchronous_commit = off; INSERT INTO {skald_outbox} (topic, type, data) VALUES ('orders', 't', '1')`))
			return err
		})
		if err == nil {
			err = conn.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&behind)
		}
		conn.Release()
		if err != nil {
			return err
		}
		tip, err := tick(ctx, base)
		if err != nil {
			return err
		}
		if tip == base {
			return errors.New("the window does not show the row")
		}
		base = tip
		if !one[bool](t, b, `SELECT pg_current_wal_flush_lsn() >= $1::text::pg_lsn`, behind) {
			return fmt.Errorf("window %d shows a row that a crash would undo", i)
		}
	}
	return nil
}

// unflushed is a Tick whose transaction is not flushed when it returns.
func unflushed(s *Store) func(ctx context.Context, base string) (string, error) {
	for name, sql := range s.pg.SQL {
		if name == "Session" || name == "OwnSession" {
			s.pg.SQL[name] = sql[:strings.LastIndex(sql, "set_config('synchronous_commit'")] +
				"set_config('synchronous_commit', 'off', true)"
		}
	}
	return looking(s)
}

func looking(s *Store) func(context.Context, string) (string, error) {
	return func(ctx context.Context, base string) (string, error) { return store.Snapshot(ctx, s, base) }
}

// TestSeededBugs checks that each well-known bug is found.
// Interleavings 2, 11, 14.
func TestSeededBugs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.exec(t, `CREATE TABLE {effect} (id text)`)
	b.exec(t, `CREATE TABLE {lease} (id integer PRIMARY KEY, epoch bigint NOT NULL, token text NOT NULL)`)
	b.exec(t, `INSERT INTO {lease} SELECT id, epoch, token FROM {skald_shard}`)
	b.exec(t, `CREATE FUNCTION {copy_lease}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		UPDATE `+b.q("{lease}")+` SET epoch = new.epoch, token = new.token WHERE id = new.id; RETURN new; END $$`)
	b.exec(t,
		`CREATE TRIGGER copy AFTER UPDATE OF epoch, token ON {skald_shard} FOR EACH ROW EXECUTE FUNCTION {copy_lease}()`)
	b.Made = pgbed.Keep(t, pgbed.Over(b.pool), b.schema) // with these
	fresh := func() string { return aMessage("").ID }
	naively := func(sql string) error {
		return ordered(t, b,
			&naive{b: b,
				sql:  `SELECT txid::text::bigint, seq, convert_to(key, 'UTF8'), convert_to(data, 'UTF8') FROM {skald_outbox} ` + sql + ` LIMIT $3`,
				seq:  one[int64](t, b, `SELECT coalesce(max(seq), 0) FROM {skald_outbox}`),
				txid: one[int64](t, b, `SELECT pg_current_xact_id()::text::bigint`)})
	}
	behind := func() *follower {
		f := newFollower(b.store(t))
		if err := f.turn(context.Background(), 10_000); err != nil {
			t.Fatal(err)
		}
		f.rows = nil
		return f
	}
	for _, c := range []struct {
		bug   string
		says  string // a pattern for the error of the test, so that another error does not count
		wrong func() error
		// right is nil if another test of the same attack has it, for example
		// TestTakeoverAgainstPausedOwner.
		right func() error
	}{
		{"id > cursor", "lost",
			func() error { return naively(`WHERE $1::bigint > 0 AND seq > $2 ORDER BY seq`) },
			func() error { return ordered(t, b, behind()) }},
		// Other databases of the server can hold the xmin back: then rows do not come at all.
		{"(txid, seq) below xmin", "inverted|lost: key", func() error {
			return naively(`WHERE (txid, seq) > ($1::bigint::text::xid8, $2) AND txid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY txid, seq`)
		}, nil},
		{"guard that only counts", "the shard is", func() error {
			return takeovers(t, b,
				func(s *Store) {
					replaced(s, "KeepProgress", bareProgress+
						`epoch = $2::bigint AND token = $3::text`)
				}, false)
		}, nil},
		{"epoch checked on another row", "the new owner starts at", func() error {
			return takeovers(t, b, func(s *Store) {
				replaced(s, "KeepProgress", `WITH u AS (`+bareProgress+
					`EXISTS (SELECT FROM /*schema*/lease AS o WHERE o.id = $1::integer AND o.epoch = $2::bigint AND o.token = $3::text)
					RETURNING 1) SELECT /*schema*/skald_require(EXISTS (SELECT FROM u), 'a shard')`)
			}, false)
		}, nil},
		{"mark looked for before, inserted at the end", "2 effects", func() error {
			return intakes(t, b, fresh, func(s *Store) {
				replaced(s, "InsertMark",
					`SELECT FROM (SELECT $1::text, $2::text, $3::text, $4::smallint, $5::text, $6::bigint, $7::bigint, $8::boolean, $9::bigint) AS x
					WHERE NOT EXISTS (SELECT FROM /*schema*/skald_mark AS m WHERE m.consumer = $1::text AND m.source = $2::text AND m.id = $3::text FOR UPDATE)`)
				replaced(s, "late mark",
					`INSERT INTO /*schema*/skald_mark (consumer, source, id, outcome) VALUES ($1::text, $2::text, $3::text, 1) ON CONFLICT DO NOTHING`)
			})
		}, nil},
		{"retention looks before it locks", "is lost", func() error {
			return retentions(t, b, func(s *Store) {
				s.pg.Raw["LockRows"] = "SELECT 'instead of LOCK TABLE skald_outbox_0'"
			})
		}, nil},
		{"window used before it is on disk", "a crash would undo",
			func() error { return flushed(t, b, unflushed(b.store(t))) },
			func() error { return flushed(t, b, looking(b.store(t))) }},
		{"a rival's mark looked for in the statement that waits for it", "is not found",
			func() error { return intakes(t, b, fresh, sameSnapshot) }, nil},
		{"a handler's transaction may be idle for ever", "starves.*holds the mark",
			func() error { return starved(t, b, forEver, 3*time.Second) },
			func() error { return starved(t, b, nil, 5*time.Minute) }},
		{"marks of a batch in any order", "40P01", func() error { return circle(t, b, backwards) },
			func() error { return circle(t, b, nil) }},
		{"an entity locked as often as it is named", "21000",
			func() error { return sameEntity(t, b, eachLock) },
			func() error { return sameEntity(t, b, nil) }},
	} {
		t.Run(c.bug, func(t *testing.T) {
			err := c.wrong()
			if err == nil || !regexp.MustCompile(c.says).MatchString(err.Error()) {
				t.Errorf("the bug was not found: %v", err)
			}
			t.Log(err)
			b.clear(t)
			if c.right == nil {
				return
			}
			if err := c.right(); err != nil {
				t.Errorf("the right way is red: %v", err)
			}
			b.clear(t)
		})
	}
}
