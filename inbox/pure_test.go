package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// hangingOptions sets one function that calls hang with the payload.
func hangingOptions(hang func(data []byte)) map[string]func(*inbox.Options) {
	return map[string]func(*inbox.Options){
		"Identity.Of": func(o *inbox.Options) {
			o.Identity.Of = func(d broker.Delivery) (store.Identity, error) {
				hang(d.Data)
				return inbox.ByID(d)
			}
		},
		"Identity.Fingerprint": func(o *inbox.Options) {
			o.Identity.Fingerprint = func(m skald.Message) []byte { hang(m.Data); return m.Data }
		},
		"Identity.Attempt.Count": func(o *inbox.Options) {
			o.Identity.Attempt.Count = func(d broker.Delivery) int { hang(d.Data); return 0 }
		},
		"Transaction.Entities": func(o *inbox.Options) {
			o.Transaction.Entities = func(m skald.Message) []store.Lock { hang(m.Data); return nil }
		},
		"Transaction.Settings": func(o *inbox.Options) {
			o.Transaction.Settings = func(m skald.Message) []store.Setting { hang(m.Data); return nil }
		},
		"Retry.Classify": func(o *inbox.Options) {
			o.Retry.Classify = func(m skald.Message, _ error) failure.Class { hang(m.Data); return "" }
		},
	}
}

// TestOptionsThatNeverReturn checks functions of Options that hang for more messages than the consumer has
// workers. These messages become dead letters, and messages of other keys are handled.
func TestOptionsThatNeverReturn(t *testing.T) {
	t.Parallel()
	for name := range hangingOptions(nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, end := newWorld(t, 1), make(chan bool)
			w.db = memstore.New(nil) // with the real clock
			defer close(end)
			o := &inbox.Options{Workers: 1, Timeouts: inbox.Timeouts{Handle: 200 * time.Millisecond},
				Retry: inbox.Retry{Attempts: 3, InitialInterval: time.Millisecond,
					MaxInterval: time.Millisecond}}
			hangingOptions(func(data []byte) {
				if bytes.Contains(data, []byte("hangs")) {
					<-end
				}
			})[name](o)
			in := w.inbox(o, func(_ context.Context, _ tx, m skald.Received[string]) error {
				if m.Value == "hangs" {
					return errors.New("its handler fails")
				}
				return nil
			})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- in.Run(ctx) }()
			const bad = 4
			for i := range bad {
				w.publish(w.message(fmt.Sprint("bad", i), "hangs"))
			}
			for i := range 10 {
				w.publish(w.message(fmt.Sprint("k", i), "well"))
			}
			until(t, "the others are handled", func() bool { return in.Health().Handled == 10 })
			until(t, "they are dead letters", func() bool { return len(w.dead()) == bad })
			why := w.dead()[0].Last.Why
			if name != "Retry.Classify" && name != "Identity.Attempt.Count" && !strings.Contains(why, name) {
				t.Errorf("it failed with %s", why)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
