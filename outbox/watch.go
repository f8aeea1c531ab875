package outbox

import (
	"context"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// A Watch reports metrics of how the outbox stands: what is pending, how old it is, whether a relay is there.
// It is for processes that only write: a relay reports the same, but not once it is dead, and an inbox
// reports it of the database that it works in. The database is asked when metrics are collected, at most
// every 30 s.
type Watch struct {
	db store.Teller
	o  Options
}

var _ skald.Runner = (*Watch)(nil)

// NewWatch is a watch on the outbox in db. Of o it uses Now and MeterProvider.
func NewWatch(db store.Teller, o *Options) *Watch {
	w := &Watch{db: db}
	if o != nil {
		w.o = *o
	}
	if w.o.Now == nil {
		w.o.Now = time.Now
	}
	return w
}

// Run reports until ctx is done.
func (w *Watch) Run(ctx context.Context) error {
	defer telemetry.WatchBacklog(telemetry.Providers{Meter: w.o.MeterProvider}, w.o.Now, w.backlog,
		telemetry.Always, nil)()
	<-ctx.Done()
	return nil
}

func (w *Watch) backlog(ctx context.Context) (store.Backlog, error) {
	return store.ReadBacklog(ctx, w.db)
}
