package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// State that a handler leaves in its transaction or its session reaches no other message, in a batch or
// alone.
func TestHandlerStateReachesNoOtherMessage(t *testing.T) {
	t.Parallel()
	open := onPostgres(t)
	const tenant = "SELECT coalesce(current_setting('app.tenant', true), '')"
	for _, c := range []struct{ name, sets, reads, own string }{
		{"local setting", "SELECT set_config('app.tenant', 'b', true)", tenant, "b"},
		{"SET LOCAL", "SET LOCAL app.tenant = 'b'", tenant, "b"},
		{"setting of the session", "SELECT set_config('app.tenant', 'b', false)", tenant, "b"},
		{"setting in a block", "DO $$ BEGIN PERFORM set_config('app.tenant', 'b', false); END $$", tenant, "b"},
		{"temporary table", "CREATE TEMP TABLE left_here (id int)",
			"SELECT coalesce(to_regclass('pg_temp.left_here')::text, '')", "left_here"},
	} {
		for _, batch := range []int{0, 1, 50} {
			if batch == 50 && !need.Full() {
				continue // the default differs little
			}
			t.Run(fmt.Sprintf("%s, batch of %d", c.name, batch), func(t *testing.T) {
				w := newWorld(t, 1)
				g := open(w)
				t.Cleanup(g.pool.Reset)
				in := inbox.New(g.db, w.bus, "stock", &inbox.Options{Now: w.clock, Workers: 1, Batch: batch})
				inbox.On(in, said, func(ctx context.Context, tx pgx.Tx, m skald.Received[string]) error {
					n, _ := strconv.Atoi(m.Value)
					if n%20 == 7 {
						if _, err := tx.Exec(ctx, c.sets); err != nil {
							return err
						}
					}
					got := ""
					if err := tx.QueryRow(ctx, c.reads).Scan(&got); err != nil {
						return err
					}
					return g.note(tx, string(m.Key), "has "+got)
				})
				const all = 100
				for n := range all {
					w.publish(w.message(fmt.Sprint("k", n), strconv.Itoa(n)))
				}
				w.quiet(in)
				lists := g.lists(t)
				for n := range all {
					want := "has "
					if n%20 == 7 {
						want += c.own
					}
					if got := lists[fmt.Sprint("k", n)]; got != want {
						t.Errorf("message %d: %q, want %q", n, got, want)
					}
				}
			})
		}
	}
}

// TestTemporaryTableOfADatabaseFunction checks that no handler meets the rows of another one in a temporary
// table that a function of the database makes, though Skald does not see its statements.
func TestTemporaryTableOfADatabaseFunction(t *testing.T) {
	t.Parallel()
	open := onPostgres(t)
	w := newWorld(t, 1)
	g := open(w)
	if _, err := g.pool.Exec(t.Context(), "CREATE FUNCTION "+g.schema+`.scratch() RETURNS text LANGUAGE plpgsql AS $$
		BEGIN
			CREATE TEMP TABLE IF NOT EXISTS scratch (n int) ON COMMIT DELETE ROWS;
			INSERT INTO scratch VALUES (1);
			RETURN (SELECT count(*) FROM scratch);
		END$$`); err != nil {
		t.Fatal(err)
	}
	runs := 0
	in := inbox.New(g.db, w.bus, "stock", &inbox.Options{Now: w.clock, Workers: 1})
	inbox.On(in, said, func(ctx context.Context, tx pgx.Tx, m skald.Received[string]) error {
		runs++
		rows := ""
		if err := tx.QueryRow(ctx, "SELECT "+g.schema+".scratch()").Scan(&rows); err != nil {
			return err
		}
		return g.note(tx, string(m.Key), rows)
	})
	const all = 100
	for n := range all {
		w.publish(w.message(fmt.Sprint("k", n), strconv.Itoa(n)))
	}
	w.quiet(in)
	lists := g.lists(t)
	for n := range all {
		if got := lists[fmt.Sprint("k", n)]; got != "1" {
			t.Errorf("the handler of message %d saw %q rows, want 1", n, got)
		}
	}
	if runs > all+64 { // one batch runs again
		t.Errorf("%d runs of the handler", runs)
	}
}

// Messages of one entity get different fencing tokens, also if they could share a transaction.
func TestFencingTokensAreDifferentInBatches(t *testing.T) {
	w := newWorld(t, 1)
	tokens := map[string]map[int64]int{}
	in := w.inbox(&inbox.Options{Now: w.clock, Workers: 1, Batch: 50,
		Transaction: inbox.Transaction{Entities: func(m skald.Message) []store.Lock {
			return []store.Lock{{Space: "item", Key: string(m.Key)}}
		}}}, func(ctx context.Context, tx tx, m skald.Received[string]) error {
		token := inbox.Fence(ctx, "item", string(m.Key))
		key := string(m.Key)
		if tokens[key] == nil {
			tokens[key] = map[int64]int{}
		}
		tokens[key][token]++
		return keep(ctx, tx, m)
	})
	for n := range 60 {
		w.publish(w.message(fmt.Sprint("k", n%6), "1"))
	}
	w.quiet(in)
	for key, of := range tokens {
		if len(of) != 10 {
			t.Errorf("10 messages of %s had the tokens %v", key, of)
		}
	}
}

// A handler that changes its message in place changes no retry, no dead letter and no order.
func TestHandlerMayChangeItsMessage(t *testing.T) {
	w := newWorld(t, 1)
	runs := 0
	in := inbox.New(w.db, w.bus, "stock", &inbox.Options{Now: w.clock, Workers: 1,
		Retry: inbox.Retry{Attempts: 2, InitialInterval: pause}})
	in.Handle("orders", "said", func(_ context.Context, _ tx, m skald.Message) error {
		if string(m.Data) != `"1"` || string(m.Key) != "k" || string(m.Headers[0].Value) != "v" {
			t.Errorf("the handler got %s %s %s", m.Key, m.Data, m.Headers[0].Value)
		}
		runs++
		copy(m.Data, "ZZZ")
		m.Key[0], m.Headers[0].Value[0] = 'Z', 'Z'
		return errors.New("no")
	})
	m := w.message("k", "1")
	m.Headers = []skald.Header{{Name: "h", Value: []byte("v")}}
	w.publish(m)
	w.quiet(in)
	w.pass(2 * pause)
	w.quiet(in)
	kept := w.kept()
	if runs != 2 || len(kept) != 1 || string(kept[0].Message.Data) != `"1"` ||
		string(kept[0].Message.Key) != "k" || string(kept[0].Message.Headers[0].Value) != "v" {
		t.Errorf("%d runs; kept: %+v", runs, kept)
	}
}

// Through database/sql the store does not see the statements of a handler, so messages share no transaction
// by default.
func TestNothingIsSharedUnseenByDefault(t *testing.T) {
	t.Parallel()
	open := onPostgres(t)
	for batch, want := range map[int]bool{0: false, 50: true} {
		w := newWorld(t, 1)
		g := open(w)
		db := stdlib.OpenDBFromPool(g.pool)
		shared, last := false, (*sql.Tx)(nil)
		in := inbox.New(pgstore.NewSQL(db, &pgstore.Options{Schema: g.schema}), w.bus, "stock",
			&inbox.Options{Now: w.clock, Workers: 1, Batch: batch})
		inbox.On(in, said, func(_ context.Context, tx *sql.Tx, _ skald.Received[string]) error {
			shared, last = shared || tx == last, tx
			return nil
		})
		for n := range 50 {
			w.publish(w.message(fmt.Sprint("k", n), "1"))
		}
		w.quiet(in)
		if h := in.Health(); h.Handled != 50 || shared != want {
			t.Errorf("Batch %d: shared %v, health %+v", batch, shared, h)
		}
	}
}
