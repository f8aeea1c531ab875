package inbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// refusing is a store that cannot begin a transaction for messages of one key, as with an invalid setting.
type refusing struct {
	store.Driver[tx]
	key string
}

func (d *refusing) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	if len(in.Marks) > 0 && string(in.Marks[0].Key) == d.key {
		return nil, errors.New("set app.tenant for the handler: bad value")
	}
	return d.Driver.Begin(ctx, in)
}

// A duplicate of a parked message, with an intake that always fails, is dropped. It does not pause its
// partition as if no more could be parked. With another payload it goes into quarantine.
func TestDuplicateOfAMessageWithAFailingIntake(t *testing.T) {
	breaks := func(m skald.Message) []byte {
		if string(m.Key) == "bad" {
			panic("no fingerprint")
		}
		return m.Data
	}
	for name, data := range map[string]string{"the same": "1", "another payload": "2",
		"no fingerprint": "1"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			o := &inbox.Options{}
			if name == "no fingerprint" {
				o.Identity.Fingerprint = breaks
			}
			in := w.over(&refusing{w.db, "bad"}, o,
				func(_ context.Context, t tx, m skald.Received[string]) error {
					return note(t, "all", m.Value)
				})
			first := w.message("bad", "1")
			again := w.message("bad", data)
			again.ID = first.ID
			w.publish(first, again, w.message("k", "3"))
			w.quiet(in)
			w.publish(w.message("k", "4"))
			w.quiet(in)
			w.expect("all", "3 4")
			if h := in.Health(); len(h.Paused) > 0 || h.Unacknowledged > 0 {
				t.Errorf("%+v", h)
			}
			kept, err := store.ListParked(t.Context(), w.db, store.ParkedQuery{Consumer: "stock", Limit: 10})
			if err != nil || len(kept) != 1 {
				t.Errorf("kept are %+v, %v", kept, err)
			}
		})
	}
}
