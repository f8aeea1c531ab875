package outbox

import (
	"context"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// Watch reports metrics of the outbox: the number and the age of pending rows, and shards without a relay. It
// is for processes that only write messages, because a relay and an inbox report the same metrics. Watch
// queries the database when metrics are collected, at most every 30 s.
type Watch struct {
	db store.StatusReader
	o  Options
}

var _ skald.Runner = (*Watch)(nil)

// NewWatch returns a Watch for the outbox in db. It uses only Now and MeterProvider of o.
func NewWatch(db store.StatusReader, o *Options) *Watch {
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
