package pgstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
)

// TestMessagesThatCannotBeWritten checks that the error for a message that cannot be written has the reason
// and the limit, before anything is sent. The transaction continues, and other messages are written.
func TestMessagesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	s := b.store(t)
	out := outbox.New(s, nil)
	good := skald.Draft{Topic: "orders", Type: "order.placed", Key: []byte("a\x00\xff"), Value: "größe \x00"}
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		for name, c := range map[string]struct {
			change func(d *skald.Draft)
			says   []string
		}{
			"NUL in topic": {func(d *skald.Draft) { d.Topic = "a\x00b" },
				[]string{`"a\x00b"`, "A-Z a-z 0-9"}},
			"topic not UTF-8": {func(d *skald.Draft) { d.Topic = "\xff" },
				[]string{`"\xff"`, "A-Z a-z 0-9"}},
			"no topic": {func(d *skald.Draft) { d.Topic = "" }, []string{"1 to 249"}},
			"NUL in type": {func(d *skald.Draft) { d.Type = "x\x00" },
				[]string{"orders", "1 to 255 bytes of text"}},
			"type not UTF-8": {func(d *skald.Draft) { d.Type = "\xff" },
				[]string{"orders", "1 to 255 bytes of text"}},
			"NUL in subject": {func(d *skald.Draft) { d.Subject = "\x00" },
				[]string{"orders", "order.placed", "subject"}},
			"subject not UTF-8": {func(d *skald.Draft) { d.Subject = "\xff" },
				[]string{"orders", "order.placed", "subject"}},
			"header not UTF-8": {func(d *skald.Draft) { d.Headers = []skald.Header{{Name: "\xff"}} },
				[]string{"order.placed", "header name"}},
			"headers too large": {func(d *skald.Draft) {
				d.Headers = []skald.Header{{Name: "a", Value: make([]byte, 17<<10)}}
			}, []string{"order.placed", "16384"}},
			"too many headers": {func(d *skald.Draft) { d.Headers = make([]skald.Header, 1025) },
				[]string{"order.placed", "1025 headers", "1024"}},
			"key too large": {func(d *skald.Draft) { d.Key = make([]byte, 1025) },
				[]string{"order.placed", "1025 bytes", "1024"}},
			"message too large": {func(d *skald.Draft) { d.Value = strings.Repeat("x", 900<<10) },
				[]string{"order.placed", "921602 bytes", "921600", "send a reference instead"}},
			"value of no format": {func(d *skald.Draft) { d.Value = make(chan int) },
				[]string{"order.placed", "chan int"}},
		} {
			d := good
			c.change(&d)
			err := out.Write(ctx, tx, d)
			if err == nil || s.Outage(err) || store.Incurable(err) {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, word := range c.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s: %q is not in %v", name, word, err)
				}
			}
		}
		return out.Write(ctx, tx, good)
	})
	if err != nil {
		t.Fatal(err)
	}
	f := newFollower(s)
	if err := f.turn(ctx, 10); err != nil || len(f.rows) != 1 {
		t.Fatalf("%d rows: %v", len(f.rows), err)
	}
	if m := f.rows[0]; string(m.Key) != "a\x00\xff" || string(m.Data) != `"größe \u0000"` {
		t.Errorf("written as %q %q", m.Key, m.Data)
	}
}

// TestRowsThatCannotBeWritten checks that the table itself names the limit for SQL writers.
func TestRowsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for values, want := range map[string]string{
		`('orders', 'x', E'\000')`:             "22021",
		`('orders', 'x', E'\xff')`:             "22021",
		`('orders', 'x', repeat('x', 921601))`: "skald_outbox_data",
		`('no topic', 'x', '')`:                "skald_outbox_topic",
		`('orders', repeat('x', 256), '')`:     "skald_outbox_type",
		`(NULL, 'x', '')`:                      "topic",
	} {
		_, err := b.pool.Exec(t.Context(), b.q("INSERT INTO {skald_outbox} (topic, type, data) VALUES ")+
			values)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", values, err)
		}
	}
	if c := b.Count(t); c.Rows != 0 {
		t.Errorf("%+v", c)
	}
}

// TestLargeRowIsNotRead checks that the table also checks the size of a row with a bucket. A larger row
// that exists nevertheless is read as its size and hash.
func TestLargeRowIsNotRead(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	const row = `INSERT INTO {skald_outbox} (topic, type, bucket, key, data, correlation_id) VALUES `
	for values, limit := range map[string]string{
		`('orders', 'x', 1, 'k', repeat('x', 921601), NULL)`: "data",
		`('orders', 'x', 1, repeat('k', 1025), '', NULL)`:    "key",
		`('orders', 'x', 1, 'k', '', repeat('c', 1025))`:     "stamp",
	} {
		if _, err := b.pool.Exec(t.Context(), b.q(row)+values); err == nil ||
			!strings.Contains(err.Error(), "skald_outbox_"+limit) {
			t.Errorf("%s: %v", values, err)
		}
	}
	b.exec(t, `ALTER TABLE {skald_outbox} DISABLE TRIGGER USER`)
	b.exec(t,
		row+
			`('orders', 'x', 1, 'k', repeat('x', 3000000), NULL), ('orders', 'x', 1, repeat('k', 2000000), '', NULL),
		('orders', 'x', 1, 'k', '', repeat('c', 2000000)), ('orders', 'x', 1, 'k', 'ok', 'c')`)
	for _, of := range []store.Driver[pgx.Tx]{s, b.storeIn(t, pgx.QueryExecModeSimpleProtocol)} {
		tip, err := store.Snapshot(t.Context(), of, "")
		if err != nil {
			t.Fatal(err)
		}
		page, err := of.Pull(t.Context(), store.Window{Tip: tip}, 10)
		if err != nil || len(page.Rows) != 4 || !page.Done {
			t.Fatalf("%d rows: %v", len(page.Rows), err)
		}
		sum := sha256.Sum256(bytes.Repeat([]byte("x"), 3000000))
		for i, want := range []string{hex.EncodeToString(sum[:]), "", "", ""} {
			switch r := page.Rows[i]; {
			case i == 3 && (r.Large != nil || string(r.Data) != "ok" || r.Type != "x" ||
				r.CorrelationID != "c"):
				t.Errorf("the whole row is %+v", r)
			case i < 3 && (r.Large == nil || r.Large.Bytes < 2_000_000 || r.Data != nil || r.Type != "" ||
				len(r.Key) > 1 || r.CorrelationID != ""):
				t.Errorf("large row %d is %+v", i, r)
			case i == 0 && (r.Large.SHA256 != want || string(r.Key) != "k" || r.Topic != "orders"):
				t.Errorf("large row %d is %+v with %+v, want the hash %s", i, r, r.Large, want)
			}
		}
	}
}

// TestLargestMessage checks that the limits in SQL and in Go are the same: a row at the limit passes both.
func TestLargestMessage(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	m := aMessage("a")
	m.Data = []byte(strings.Repeat("x", 900<<10))
	if _, err := s.Apply(t.Context(), store.Effect{Rows: rowsOf(m)}); err != nil {
		t.Error(err)
	}
	m = aMessage("a")
	m.Data = []byte(strings.Repeat("x", 900<<10+1))
	var limit *store.LimitError
	if _, err := s.Apply(t.Context(), store.Effect{Rows: rowsOf(m)}); !errors.As(err, &limit) ||
		!strings.Contains(err.Error(), "921601 bytes, at most 921600") {
		t.Error(err)
	}
}

// TestStatementsThatViolateTheProtocol checks that a protocol violation in one statement is the fault of
// the writer, because the session continues. An error that ends the session, or that a pooler sends, is an
// outage.
func TestStatementsThatViolateTheProtocol(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx, s := t.Context(), b.store(t)
	conn, err := b.connect(t, pgx.QueryExecModeSimpleProtocol).Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	_, nul := conn.Exec(ctx, "SELECT $1::text", "a\x00b")
	_, few := conn.Conn().PgConn().ExecParams(ctx, "SELECT $1::text", nil, nil, nil, nil).Close()
	for what, err := range map[string]error{"a NUL": nul, "no parameter": few} {
		if pe := (*pgconn.PgError)(nil); !errors.As(err, &pe) || pe.Code != "08P01" ||
			s.Outage(err) || store.Incurable(err) {
			t.Errorf("%s: %v, an outage is %v", what, err, s.Outage(err))
		}
	}
	if _, err := conn.Exec(ctx, "SELECT 1"); err != nil {
		t.Errorf("the session after these: %v", err)
	}
	for what, err := range map[string]error{
		"its end":  &pgconn.PgError{Code: "08P01", Severity: "FATAL", SeverityUnlocalized: "FATAL"},
		"a pooler": &pgconn.PgError{Code: "08P01", Severity: "ERROR", Message: "query_wait_timeout"},
	} {
		if !s.Outage(err) {
			t.Errorf("%s is no outage", what)
		}
	}
}
