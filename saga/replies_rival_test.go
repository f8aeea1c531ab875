package saga_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// ofKey returns the state of a saga, without times and id.
func (k *desk[TTx]) ofKey(key string) string {
	k.t.Helper()
	var state map[string]any
	if err := json.Unmarshal([]byte(k.saga(key).State), &state); err != nil {
		k.t.Fatal(err)
	}
	delete(state, "id")
	for _, r := range state["runs"].([]any) {
		run := r.(map[string]any)
		delete(run, "at")
		if _, due := run["due"]; due {
			run["due"] = "some time"
		}
	}
	if failures, failed := state["failures"].([]any); failed {
		for _, f := range failures {
			delete(f.(map[string]any), "at")
		}
	}
	text, err := json.Marshal(state)
	if err != nil {
		k.t.Fatal(err)
	}
	return string(text)
}

// sorted returns commands in an order that does not depend on the order of claims.
func sorted(ms []skald.Message) []skald.Message {
	return slices.SortedFunc(slices.Values(ms), func(a, b skald.Message) int {
		return cmp.Or(bytes.Compare(a.Key, b.Key), cmp.Compare(a.Type, b.Type), bytes.Compare(a.Data, b.Data))
	})
}

// strange returns a random reply to one of all commands. Most of these replies are correct and in time.
func (k *desk[TTx]) strange(r *rand.Rand, all []skald.Message) skald.Message {
	c := all[r.IntN(len(all))]
	right := map[string]string{"pack": "packed", "unpack": "unpacked", "pay": "paid"}[c.Type]
	if right == "packed" && r.IntN(12) == 0 {
		right = "short"
	}
	m := k.reply(c, right, string(c.Key))
	switch r.IntN(16) {
	case 0:
		m.Type = []string{"packed", "short", "unpacked", "paid"}[r.IntN(4)]
	case 1:
		m.CausationID = ""
	case 2:
		m.CorrelationID += "0"
	case 3:
		m.CorrelationID = "saga:parcels:" + string(c.Key) + ":"
	case 4:
		m.CausationID = "something else"
	case 5:
		m.CorrelationID = ""
	case 6:
		m.Data = []byte("{")
	}
	return m
}

// came applies random replies, and returns all results: in the database, and in the counts of the engine.
func came(t *testing.T, seed uint64, batch int) (lines []string) {
	k, r := newDesk(t, memstore.New(nil)), rand.New(rand.NewPCG(seed, 20))
	in := k.inbox(k.e, k.bus, "orders", batch)
	all := sorted(k.begin(order{ID: "a", Lines: []string{"1", "2", "3"}},
		order{ID: "b", Lines: []string{"1", "2"}}, order{ID: "c", Lines: []string{"1"}}))
	for range 4 {
		var ms []skald.Message
		for range r.IntN(14) {
			ms = append(ms, k.strange(r, all))
		}
		publish(t, k.bus, ms...)
		k.quiet(in)
		all = append(all, sorted(k.goOn())...)
	}
	for _, key := range []string{"a", "b", "c"} {
		lines = append(lines, k.ofKey(key))
	}
	kept, err := store.ListParked(t.Context(), k.db, store.ParkedQuery{Consumer: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(kept, func(a, b store.Parked) int { return cmp.Compare(a.ID, b.ID) })
	for _, p := range kept {
		lines = append(lines, "kept: "+p.ID+" "+p.Dead.Kind)
	}
	for _, c := range all {
		lines = append(lines, fmt.Sprintf("command: %s %s %s", c.Key, c.Type, c.Data))
	}
	replies := k.e.Health().Replies
	for _, out := range slices.Sorted(maps.Keys(replies)) {
		lines = append(lines, fmt.Sprint(out, ": ", replies[out]))
	}
	counts := measured(t, k.seen)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprint(name, ": ", counts[name]))
	}
	return lines
}

// TestRepliesAtOnce: the replies of a batch have the same results as one by one.
func TestRepliesAtOnce(t *testing.T) {
	for seed := range uint64(20) {
		one, many := came(t, seed, 1), came(t, seed, 100)
		if !slices.Equal(one, many) {
			t.Fatalf("seed %d: one by one\n%s\nat once\n%s", seed, join(one), join(many))
		}
	}
}

func join(lines []string) (out string) {
	for _, l := range lines {
		out += "\t" + l + "\n"
	}
	return out
}

// locks is a database that calls functions before and after each statement that locks sagas.
type locks[TTx any] struct {
	store.Driver[TTx]
	before, after func(tx TTx, n int)
	keys          []string
}

func (l *locks[TTx]) LockSagas(ctx context.Context, tx TTx, refs ...store.SagaRef) ([]store.Saga, error) {
	l.before(tx, len(l.keys))
	ss, err := l.Driver.LockSagas(ctx, tx, refs...)
	l.after(tx, len(l.keys))
	for _, r := range refs {
		l.keys = append(l.keys, r.Key)
	}
	return ss, err
}

// TestRepliesOfRivals: two processes get replies to the same two sagas, in opposite orders. One waits for
// the other, without a deadlock.
func TestRepliesOfRivals(t *testing.T) {
	t.Parallel()
	pool, db, _ := onPostgres(t)
	k := newDesk[pgx.Tx](t, db)
	commands := sorted(k.begin(order{ID: "a", Lines: []string{"1"}}, order{ID: "b", Lines: []string{"1"}}))
	nothing, begun, pid := func(pgx.Tx, int) {}, make(chan bool), make(chan uint32, 1)
	first := &locks[pgx.Tx]{Driver: db, before: nothing, after: func(_ pgx.Tx, n int) {
		if n == 0 {
			close(begun)
			blocked(t, pool.QueryRow, <-pid)
		}
	}}
	second := &locks[pgx.Tx]{Driver: db, after: nothing, before: func(tx pgx.Tx, n int) {
		if n == 0 {
			pid <- tx.Conn().PgConn().PID()
		}
	}}
	other := membroker.New(nil)
	if err := other.MakeTopics(t.Context(), 1, "packed"); err != nil {
		t.Fatal(err)
	}
	publish(t, k.bus, k.reply(commands[0], "packed", "o"), k.reply(commands[1], "packed", "o"))
	publish(t, other, k.reply(commands[1], "packed", "o"), k.reply(commands[0], "packed", "o"))
	one, two := k.engine(first, metric.NewManualReader()), k.engine(second, metric.NewManualReader())
	done := make(chan error, 1)
	go func() {
		in := k.inbox(two, other, "rivals", 100)
		<-begun
		busy, err := true, error(nil)
		for busy && err == nil {
			busy, err = in.Step(context.WithoutCancel(t.Context()))
		}
		done <- err
	}()
	k.quiet(k.inbox(one, k.bus, "orders", 100))
	if err := <-done; err != nil {
		t.Error(err)
	}
	if want := []string{"a", "b"}; !slices.Equal(first.keys, want) || !slices.Equal(second.keys, want) {
		t.Errorf("they locked %v and %v", first.keys, second.keys)
	}
	if a, b := one.Health().Replies, two.Health().Replies; a["taken"] != 2 || b["repeat"] != 2 {
		t.Errorf("the replies: %v and %v", a, b)
	}
	if got := k.goOn(); len(got) != 2 {
		t.Errorf("the next commands: %v", got)
	}
}

// blocked waits until a connection waits for a lock.
func blocked(t *testing.T, ask func(ctx context.Context, sql string, args ...any) pgx.Row, pid uint32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for is := false; !is; {
		if err := ask(ctx,
			"SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'",
			int32(pid)).Scan(&is); err != nil {
			t.Errorf("no connection waits: %v", err)
			return
		}
	}
}
