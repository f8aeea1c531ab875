package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// quits ends its goroutine for bad messages.
func quits(bad bool) {
	if bad {
		runtime.Goexit()
	}
}

func isBad(m skald.Message) bool { return strings.Contains(string(m.Data), "bad") }

// quitter is a value that ends the goroutine that encodes it.
type quitter struct{}

func (quitter) MarshalJSON() ([]byte, error) { runtime.Goexit(); return nil, nil }

// Each user function may end its goroutine, for more messages than there are workers. Those messages fail,
// all others are handled, and the consumer continues.
func TestFunctionThatEndsItsGoroutine(t *testing.T) {
	well := func(_ context.Context, t tx, m skald.Received[string]) error {
		return note(t, string(m.Key), m.Value)
	}
	for name, given := range map[string]func(*world, *inbox.Options) *inbox.Inbox[tx]{
		"handler": func(w *world, o *inbox.Options) *inbox.Inbox[tx] {
			return w.inbox(o, func(ctx context.Context, t tx, m skald.Received[string]) error {
				quits(isBad(m.Message))
				return well(ctx, t, m)
			})
		},
		"batch of handlers": func(w *world, o *inbox.Options) *inbox.Inbox[tx] {
			o.Batch = 10
			return w.inbox(o, func(ctx context.Context, t tx, m skald.Received[string]) error {
				quits(isBad(m.Message))
				return well(ctx, t, m)
			})
		},
		"batch handler": func(w *world, o *inbox.Options) *inbox.Inbox[tx] {
			o.Batch = 10
			in := inbox.New(w.db, w.bus, "stock", o)
			inbox.OnBatch(in, said, func(ctx context.Context, t tx, ms []skald.Received[string]) error {
				for _, m := range ms {
					quits(isBad(m.Message))
					if err := well(ctx, t, m); err != nil {
						return err
					}
				}
				return nil
			})
			return in
		},
		"result": func(w *world, o *inbox.Options) *inbox.Inbox[tx] {
			in := inbox.New(w.db, w.bus, "stock", o)
			inbox.OnResult(in, said, func(ctx context.Context, t tx,
				m skald.Received[string]) (inbox.Result, error) {
				if isBad(m.Message) {
					return inbox.Result{Value: quitter{}}, nil
				}
				return inbox.Result{}, well(ctx, t, m)
			})
			return in
		},
		"entities": func(w *world, o *inbox.Options) *inbox.Inbox[tx] {
			o.Transaction.Entities = func(m skald.Message) []store.Lock { quits(isBad(m)); return nil }
			return w.inbox(o, well)
		},
		"identity": func(w *world, o *inbox.Options) *inbox.Inbox[tx] {
			o.Identity.Of = func(d broker.Delivery) (store.Identity, error) {
				quits(isBad(d.Message))
				return inbox.ByID(d)
			}
			return w.inbox(o, well)
		},
		"fingerprint": func(w *world, o *inbox.Options) *inbox.Inbox[tx] {
			o.Identity.Fingerprint = func(m skald.Message) []byte { quits(isBad(m)); return m.Data }
			return w.inbox(o, well)
		},
		"classify": func(w *world, o *inbox.Options) *inbox.Inbox[tx] {
			o.Retry.Classify = func(skald.Message, error) failure.Class { runtime.Goexit(); return "" }
			return w.inbox(o, func(ctx context.Context, t tx, m skald.Received[string]) error {
				if isBad(m.Message) {
					return errors.New("no")
				}
				return well(ctx, t, m)
			})
		},
		"classify that panics": func(w *world, o *inbox.Options) *inbox.Inbox[tx] {
			o.Retry.Classify = func(skald.Message, error) failure.Class { panic("oops") }
			return w.inbox(o, func(ctx context.Context, t tx, m skald.Received[string]) error {
				if isBad(m.Message) {
					return errors.New("no")
				}
				return well(ctx, t, m)
			})
		},
		"call": func(w *world, o *inbox.Options) *inbox.Inbox[tx] {
			in := inbox.New(w.db, w.bus, "stock", o)
			inbox.OnCall(in, said, outsideCall{
				At: call.NewProvider("bank", &call.ProviderOptions{Timeout: time.Second}),
				Intent: func(_ context.Context, _ tx, m skald.Received[string]) (string, string, error) {
					return m.Value, m.Value, nil
				},
				Do: func(_ context.Context, req, _ string) (string, error) {
					quits(strings.Contains(req, "bad"))
					return req, nil
				},
				Settle: func(ctx context.Context, t tx, m skald.Received[string],
					_ call.Outcome[string]) error {
					return well(ctx, t, m)
				},
			})
			return in
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 4)
			o := &inbox.Options{Workers: 2, Retry: inbox.Retry{Attempts: 1},
				Logger: slog.New(slog.DiscardHandler)}
			in := given(w, o)
			for i := range 40 {
				text := "well"
				if i%10 == 0 {
					text = "bad"
				}
				w.publish(w.message(fmt.Sprintf("k%d", i), fmt.Sprint(text, i)))
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- in.Run(ctx) }()
			defer func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			until(t, "the good ones are handled, the others have failed", func() bool {
				return in.Health().Handled == 36 && len(w.dead()) == 4
			})
			for _, p := range w.dead() {
				if !isBad(p.Message) {
					t.Errorf("kept is %s: %s", p.Message.Data, p.Last.Why)
				}
			}
		})
	}
}
