package relay_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// unanswered delays its answers until answer, and counts the bytes without an answer.
type unanswered struct {
	*spoiled
	held, most int
	calls      []*waiting
}

type waiting struct {
	broker.Pending
	done  chan struct{}
	bytes int
}

func (w *waiting) Done() <-chan struct{} { return w.done }

func (u *unanswered) Publish(ctx context.Context, msgs []skald.Message,
	only ...broker.Topics) broker.Pending {
	w := &waiting{Pending: u.spoiled.Publish(ctx, msgs, only...), done: make(chan struct{})}
	for i := range msgs {
		w.bytes += len(msgs[i].Data)
	}
	u.calls, u.held = append(u.calls, w), u.held+w.bytes
	u.most = max(u.most, u.held)
	return w
}

func (u *unanswered) answer() {
	for _, w := range u.calls {
		close(w.done)
		u.held -= w.bytes
	}
	u.calls = nil
}

// TestRowsInMemoryAreBoundedByBytes checks the limit on bytes in memory: published rows without an answer,
// and rows of a missing topic.
func TestRowsInMemoryAreBoundedByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, each, rows = 10 << 20, 800 << 10, 30
		w := newWorld(t, "orders")
		w.db = memstore.New(nil)
		w.out = outbox.New(w.db, nil)
		bus := &unanswered{spoiled: w.bus}
		for range rows {
			w.write("orders", "", strings.Repeat("x", each))
			w.write("missing", "", strings.Repeat("x", each))
		}
		r := relay.New(w.db, bus, &relay.Options{Owner: "a", MaxBytes: most})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		var got map[string][]string
		for range 1000 {
			synctest.Wait()
			bus.answer()
			if got, _ = w.delivered("orders"); len(got[""]) == rows && len(w.db.DeferredRows()) == rows {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		for done := false; !done; {
			synctest.Wait()
			bus.answer()
			select {
			case err := <-ended:
				if done = true; err != nil {
					t.Error(err)
				}
			default:
				time.Sleep(10 * time.Millisecond)
			}
		}
		if bus.most > most || bus.most < store.PageBytes || len(got[""]) != rows ||
			len(w.db.DeferredRows()) != rows {
			t.Errorf("%d bytes at the broker at once, %d rows delivered, %d deferred", bus.most,
				len(got[""]), len(w.db.DeferredRows()))
		}
	})
}
