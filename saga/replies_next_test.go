package saga_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
)

// errand returns a saga of three commands. Draft makes the payload of the second one.
func errand(draft func(r saga.Run[order]) stand) *saga.Definition[order] {
	first := func(r saga.Run[order]) stand { return stand{r.Key, "1"} }
	last := func(saga.Run[order]) int { return 3 }
	return saga.New("errand", &saga.Options[order]{Key: orderID},
		saga.Command("one", packIt, first, saga.Reply(packed), saga.UndoBy(unpackIt, first,
			saga.Reply(unpacked))),
		saga.Command("two", packIt, draft, saga.Reply(packed, saga.RefusedBy(short,
			func(s string) string { return s })), saga.NoEffect()),
		saga.Command("three", payIt, last, saga.Reply(paid), saga.Pivot()))
}

func (k *desk[TTx]) runs(d *saga.Definition[order]) {
	k.t.Helper()
	k.d = d
	k.e = k.engine(k.db, metric.NewManualReader())
}

// sent publishes the outbox, and returns the commands. The engine does not run.
func (k *desk[TTx]) sent() []skald.Message {
	k.t.Helper()
	before := len(k.has)
	k.quiet(k.send, k.get)
	return k.has[before:]
}

// TestRepliesAdvance: a saga of commands runs to its end by replies alone, with one write for each batch of
// replies.
func TestRepliesAdvance(t *testing.T) {
	onEach(t, repliesAdvance[tx], repliesAdvance[*sql.Tx], repliesAdvance[pgx.Tx])
}

func repliesAdvance[TTx any](k *desk[TTx]) {
	k.runs(errand(func(r saga.Run[order]) stand { return stand{r.Key, "2"} }))
	var os []order
	for i := range 5 {
		os = append(os, order{ID: fmt.Sprint("o-", i)})
	}
	commands := k.begin(os...)
	first := k.saga("o-0").Version
	for range 3 {
		if len(commands) != len(os) {
			k.t.Fatalf("%d commands", len(commands))
		}
		var replies []skald.Message
		for _, c := range commands {
			typ := map[string]string{"pack": "packed", "pay": "paid"}[c.Type]
			replies = append(replies, k.reply(c, typ, string(c.Key)))
		}
		k.take(replies...)
		commands = k.sent()
	}
	for _, o := range os {
		is := k.saga(o.ID)
		if is.Status != "done" || is.Ended.IsZero() || is.Session != "" || !is.Due.IsZero() {
			k.t.Errorf("%s is %s, ended at %v, due at %v", o.ID, is.Status, is.Ended, is.Due)
		}
	}
	if is := k.saga("o-0"); is.Version != first+3 {
		k.t.Errorf("three replies were %d writes", is.Version-first)
	}
	end, err := saga.Bind(k.e, k.d).Await(k.t.Context(), "o-1")
	if err != nil || !end.Done || k.e.Health().Done != int64(len(os)) {
		k.t.Errorf("ended as %+v, %v; %d are counted", end, err, k.e.Health().Done)
	}
	if busy, err := k.e.Step(k.t.Context()); busy || err != nil {
		k.t.Errorf("the engine has a turn: %v, %v", busy, err)
	}
}

// TestRepliesTurnBack: a reply that turns a saga back emits the undo of the step before it.
func TestRepliesTurnBack(t *testing.T) {
	onEach(t, repliesTurnBack[tx], repliesTurnBack[*sql.Tx], repliesTurnBack[pgx.Tx])
}

func repliesTurnBack[TTx any](k *desk[TTx]) {
	k.runs(errand(func(r saga.Run[order]) stand { return stand{r.Key, "2"} }))
	commands := k.begin(order{ID: "o"})
	for _, typ := range []string{"packed", "short", "unpacked"} {
		if len(commands) != 1 {
			k.t.Fatalf("before %s: %v", typ, commands)
		}
		k.take(k.reply(commands[0], typ, "o"))
		commands = k.sent()
	}
	if is := k.saga("o"); is.Status != "compensated" || is.Ended.IsZero() {
		k.t.Errorf("it is %s, ended at %v", is.Status, is.Ended)
	}
}

// TestRepliesLeave: a request function that panics, hangs or makes too large a message fails no reply. Only
// its own saga is left to the engine.
func TestRepliesLeave(t *testing.T) {
	onEach(t, repliesLeave[tx], repliesLeave[*sql.Tx], repliesLeave[pgx.Tx])
}

func repliesLeave[TTx any](k *desk[TTx]) {
	hang, right := make(chan struct{}), atomic.Bool{}
	k.runs(errand(func(r saga.Run[order]) stand {
		switch {
		case right.Load():
		case r.Key == "a-panics":
			panic("no")
		case r.Key == "b-large":
			return stand{r.Key, strings.Repeat("x", 1<<20)}
		case r.Key == "d-hangs":
			<-hang
		}
		return stand{r.Key, "2"}
	}))
	keys := []string{"a-panics", "b-large", "c", "d-hangs"}
	var os []order
	for _, key := range keys {
		os = append(os, order{ID: key})
	}
	var replies []skald.Message
	for _, c := range k.begin(os...) {
		replies = append(replies, k.reply(c, "packed", string(c.Key)))
	}
	k.take(replies...)
	k.expect(map[string]int64{"taken": int64(len(keys))})
	if got := k.sent(); len(got) != 1 || string(got[0].Key) != "c" {
		k.t.Errorf("emitted at once: %v", got)
	}
	if kept, err := store.ListParked(k.t.Context(), k.db,
		store.ParkedQuery{Consumer: "orders"}); err != nil ||
		len(kept) > 0 {
		k.t.Errorf("kept: %v, %v", kept, err)
	}
	right.Store(true)
	close(hang)
	if got := k.goOn(); len(got) != len(keys)-1 {
		k.t.Errorf("the engine emits %v", got)
	}
}

// refuser is a database that refuses commands of a key, and counts writes.
type refuser[TTx any] struct {
	store.Driver[TTx]
	key    string
	writes int
}

func (r *refuser[TTx]) Write(ctx context.Context, tx TTx, es ...store.Effect) error {
	r.writes++
	for _, e := range es {
		for _, row := range e.Rows {
			if string(row.Key) == r.key {
				return fmt.Errorf("the row of %s is refused", r.key)
			}
		}
	}
	return r.Driver.Write(ctx, tx, es...)
}

// TestRepliesRefused: a database that refuses a command fails no reply. The reply is stored without the
// command, and the engine emits the command.
func TestRepliesRefused(t *testing.T) {
	onEach(t, repliesRefused[tx], repliesRefused[*sql.Tx], repliesRefused[pgx.Tx])
}

func repliesRefused[TTx any](k *desk[TTx]) {
	db := &refuser[TTx]{Driver: k.db, key: "b"}
	k.db = db
	k.runs(errand(func(r saga.Run[order]) stand { return stand{r.Key, "2"} }))
	var replies []skald.Message
	for _, c := range sorted(k.begin(order{ID: "a"}, order{ID: "b"}, order{ID: "c"})) {
		replies = append(replies, k.reply(c, "packed", string(c.Key)))
	}
	k.take(replies...)
	if got := k.e.Health().Replies["taken"]; got < 3 {
		k.t.Errorf("%d replies are taken", got)
	}
	for _, key := range []string{"a", "b", "c"} {
		if is := k.saga(key); is.Step != "two" {
			k.t.Errorf("%s is at %s", key, is.Step)
		}
	}
	if got := k.goOn(); len(got) != 3 {
		k.t.Errorf("emitted: %v", got)
	}
}
