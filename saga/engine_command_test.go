package saga_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

type stand struct{ Order, Line string }

var (
	packIt   = skald.Event[stand]{Topic: "packing", Type: "pack"}
	unpackIt = skald.Event[stand]{Topic: "packing", Type: "unpack"}
	packed   = skald.Event[string]{Topic: "packed", Type: "packed"}
	short    = skald.Event[string]{Topic: "packed", Type: "short"}
	unpacked = skald.Event[string]{Topic: "packed", Type: "unpacked"}
)

// packing returns a saga in which another service packs each line. Its last step is rejected, or succeeds.
func packing() *saga.Definition[order] {
	lines := func(r saga.Run[order]) []string { return r.In.Lines }
	line := func(r saga.Run[order]) stand { return stand{r.Key, r.Occurrence} }
	pack := saga.Command("pack", packIt, line,
		saga.Reply(packed, saga.RefusedBy(short, func(s string) string { return s })),
		saga.UndoBy(unpackIt, line, saga.Reply(unpacked)), saga.Each(lines))
	pay := saga.Do("pay", func(_ context.Context, tx tx, r saga.Run[order]) (int, error) {
		if r.In.Cents < 0 {
			return 0, skald.Reject(errors.New("no"))
		}
		return len(pack.Outputs(r)), tx.Put(r.Key+" paid", "yes")
	}, nil, saga.Pivot())
	return saga.New("packing", &saga.Options[order]{Key: orderID}, pack, pay)
}

// packer is the participant, with its own database.
func packer(db *memstore.Store, bus *membroker.Broker) *inbox.Inbox[tx] {
	in := inbox.New(db, bus, "packer", nil)
	pack := inbox.NewStep(in, "pack", func(m skald.Received[stand]) string { return m.Value.Order },
		inbox.Occurrence(func(m skald.Received[stand]) string { return m.Value.Line }))
	inbox.DoOn(pack, packIt,
		func(_ context.Context, tx tx, m skald.Received[stand]) (inbox.Result, error) {
			if m.Value.Line == "rare" {
				return inbox.Result{}, skald.Reject(errors.New("there is none"),
					short.New(m.Value.Order, "there is none"))
			}
			return inbox.Result{Publish: []skald.Draft{packed.New(m.Value.Order, m.Value.Line+" in a box")}},
				tx.Put(m.Value.Order+" "+m.Value.Line, "packed")
		}, inbox.IfBarred(func(m skald.Received[stand]) []skald.Draft {
			return []skald.Draft{short.New(m.Value.Order, "it was called off")}
		}))
	inbox.UndoOn(pack, unpackIt,
		func(_ context.Context, tx tx, m skald.Received[stand], _ inbox.DoneStep) (inbox.Result, error) {
			return inbox.Result{Publish: []skald.Draft{unpacked.New(m.Value.Order, m.Value.Line)}},
				tx.Delete(m.Value.Order + " " + m.Value.Line)
		})
	return in
}

// TestCommand: commands and replies travel by outbox, relay, broker and inbox.
func TestCommand(t *testing.T) {
	for name, c := range map[string]struct {
		o    order
		done bool
		rows int // at the participant
	}{
		"well":    {order{"o", []string{"tea", "cup"}, 1}, true, 2},
		"refused": {order{"o", []string{"tea", "rare", "cup"}, 1}, false, 0},
		"undone":  {order{"o", []string{"tea", "cup"}, -1}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, theirs, bus := memstore.New(nil), memstore.New(&memstore.Options{Source: "/packer"}),
				membroker.New(nil)
			if err := bus.MakeTopics(t.Context(), 2, "packing", "packed"); err != nil {
				t.Fatal(err)
			}
			d := packing()
			e := engineOf(t, db, d)
			in := inbox.New(db, bus, "orders", nil)
			e.Answers(in)
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() {
				done <- skald.Run(ctx, e, in, packer(theirs, bus), relay.New(db, bus, nil),
					relay.New(theirs, bus, nil))
			}()
			t.Cleanup(func() {
				stop()
				if err := <-done; err != nil {
					t.Errorf("Run: %v", err)
				}
			})
			begin(t, db, e, d, c.o)
			if end := await(t, e, d, "o"); end.Done != c.done {
				t.Errorf("it ended as %+v", end)
			}
			if n := left(theirs, "o"); n != c.rows {
				t.Errorf("%d lines are packed: %v", n, theirs.User())
			}
			if !slices.Contains(e.Replies(), saga.ReplyKind{Topic: "packed", Type: "unpacked"}) ||
				len(e.Replies()) != 3 {
				t.Errorf("replies: %v", e.Replies())
			}
		})
	}
}
