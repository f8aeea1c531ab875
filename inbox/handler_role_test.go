package inbox_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// roleFor creates a database role that may use the user's table in a schema, but no table of Skald.
func roleFor(t *testing.T, schema string) string {
	t.Helper()
	ctx, role := context.Background(), "r"+strings.ToLower(rand.Text()[:10])
	pool, err := pgxpool.New(ctx, need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for _, q := range []string{"CREATE ROLE " + role, "GRANT USAGE ON SCHEMA " + schema + " TO " + role,
		"GRANT ALL ON " + schema + ".own TO " + role} {
		if _, err := pool.Exec(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(ctx, "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	return role
}

// txChange is what a handler does to its transaction.
type txChange struct {
	name    string
	sets    string // ROLE and SCHEMA are replaced
	writes  bool   // the message is sent to the outbox
	setting bool   // Options.Transaction.Settings have the role
	done    bool   // the message is handled
}

func txChanges() []txChange {
	return []txChange{
		{name: "local role", sets: "SET LOCAL ROLE ROLE", done: true},
		{name: "local role, writes", sets: "SET LOCAL ROLE ROLE", writes: true},
		{name: "role of the settings", setting: true, done: true},
		{name: "role of the settings, writes", setting: true, writes: true},
		{name: "session role", sets: "SET ROLE ROLE", done: true},
		{name: "session role, writes", sets: "SET ROLE ROLE", writes: true},
		{name: "session authorization", sets: "SET SESSION AUTHORIZATION ROLE", done: true},
		{name: "session role by a block", sets: "DO $$BEGIN SET ROLE ROLE; END$$", done: true},
		{name: "schema hidden", sets: "SET LOCAL search_path = pg_catalog", writes: true, done: true},
		{name: "table renamed", sets: "ALTER TABLE SCHEMA.skald_outbox RENAME TO skald_hidden", writes: true},
		{name: "column renamed", sets: "ALTER TABLE SCHEMA.skald_outbox RENAME COLUMN topic TO away",
			writes: true},
		{name: "schema renamed", sets: "ALTER SCHEMA SCHEMA RENAME TO SCHEMA_away", writes: true},
		{name: "read only", sets: "SET TRANSACTION READ ONLY", writes: true},
		{name: "prepared", sets: "PREPARE TRANSACTION 'skald'"},
		{name: "prepared behind another statement", sets: "SELECT 1; PREPARE TRANSACTION 'skald'"},
		{name: "error of another store"},
	}
}

// The handler of one message leaves its transaction or session in a state in which Skald cannot write. That
// message fails, or is handled if it writes nothing. Each other message is handled once, alone and in a
// batch.
func TestHandlerThatChangesItsTransaction(t *testing.T) {
	t.Parallel()
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		testChanges(t, onPostgres(t), 0, func(tx pgx.Tx, text string) error {
			_, err := tx.Exec(t.Context(), text)
			return err
		})
	})
	t.Run("database/sql", func(t *testing.T) {
		t.Parallel()
		open := onPostgres(t)
		testChanges(t, func(w *world) *ground[*sql.Tx] { return bySQL(open(w)) }, 1,
			func(tx *sql.Tx, text string) error {
				_, err := tx.Exec(text)
				return err
			})
	})
}

// bySQL returns g with a driver of database/sql.
func bySQL(g *ground[pgx.Tx]) *ground[*sql.Tx] {
	return &ground[*sql.Tx]{
		db:     pgstore.NewSQL(stdlib.OpenDBFromPool(g.pool), &pgstore.Options{Schema: g.schema}),
		schema: g.schema, pool: g.pool, user: g.user, pass: g.pass,
		note: func(tx *sql.Tx, list, what string) error {
			_, err := tx.Exec(`INSERT INTO `+g.schema+`.own AS o VALUES ($1, $2)
				ON CONFLICT (list) DO UPDATE SET told = o.told || ' ' || excluded.told`, list, what)
			return err
		},
	}
}

// testChanges runs each change alone and in a batch. A sample runs each change in one of the two ways, with
// odd and even changes in turn. first is the way of the first change.
func testChanges[TTx comparable](t *testing.T, open opening[TTx], first int,
	exec func(tx TTx, text string) error) {
	for i, c := range txChanges() {
		for way, batch := range []int{1, 20} {
			if (i+first)%2 != way && !need.Full() {
				continue
			}
			t.Run(fmt.Sprintf("%s, batch of %d", c.name, batch), func(t *testing.T) {
				w := newWorld(t, 1)
				testChange(t, w, open(w), c, batch, exec)
			})
		}
	}
}

func testChange[TTx comparable](t *testing.T, w *world, g *ground[TTx], c txChange, batch int,
	exec func(tx TTx, text string) error) {
	role := roleFor(t, g.schema)
	t.Cleanup(g.pool.Reset) // a leftover setting would disturb the next case
	sets := strings.NewReplacer("ROLE ROLE", "ROLE "+role, "AUTHORIZATION ROLE", "AUTHORIZATION "+role,
		"SCHEMA.", g.schema+".", "SCHEMA SCHEMA", "SCHEMA "+g.schema, "SCHEMA_", g.schema+"_").Replace(c.sets)
	out, answer := outbox.New(g.db, nil), skald.Event[string]{Topic: "answers", Type: "answered"}
	o := &inbox.Options{Now: w.clock, Workers: 1, Batch: batch, Retry: inbox.Retry{Attempts: 1}}
	if c.setting {
		o.Transaction.Settings = func(m skald.Message) []store.Setting {
			if string(m.Key) != "k5" {
				return nil
			}
			return []store.Setting{{Name: "role", Value: role}}
		}
	}
	in := inbox.New(g.db, w.bus, "stock", o)
	inbox.On(in, said, func(ctx context.Context, tx TTx, m skald.Received[string]) error {
		if err := g.note(tx, "k"+m.Value, "done"); err != nil {
			return err
		}
		if m.Value != "5" {
			return out.Write(ctx, tx, answer.New("k"+m.Value, m.Value))
		}
		if sets == "" && !c.setting {
			return &store.RightError{What: "INSERT", Err: errors.New("of another database")}
		}
		if sets != "" {
			if err := exec(tx, sets); err != nil {
				return err
			}
		}
		if !c.writes {
			return nil
		}
		return out.Write(ctx, tx, answer.New("k"+m.Value, m.Value))
	})
	const all = 12
	for i := range all {
		w.publish(w.message(fmt.Sprint("k", i), strconv.Itoa(i)))
	}
	for range 3 {
		w.quiet(in)
		g.pool.Reset()
		g.passes(w, 10*time.Minute)
	}
	w.quiet(in)
	g.pool.Reset()
	lists := g.lists(t)
	for i := range all {
		want := "done"
		if i == 5 && !c.done {
			want = ""
		}
		if got := lists[fmt.Sprint("k", i)]; got != want {
			t.Errorf("effect of %d: %q, want %q", i, got, want)
		}
	}
	kept, err := in.Stored(t.Context(), 10)
	if err != nil || (len(kept) == 0) != c.done {
		t.Errorf("kept: %+v, %v", kept, err)
	}
	for _, k := range kept {
		if string(k.Message.Key) != "k5" || k.Dead == nil || !strings.Contains(k.Last.Why, "m-6") {
			t.Errorf("kept: %s, dead: %v, %q", k.Message.Key, k.Dead, k.Last.Why)
		}
		t.Log(k.Last.Why)
	}
}
