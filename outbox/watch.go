package outbox

import (
	"context"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// Source is what a Watch needs of a database; every store.Store has it.
type Source interface {
	Backlog(ctx context.Context) (store.Backlog, error)
}

// A Watch reports metrics of how the outbox stands: what is pending, how old it is, whether a relay is there. It is
// for processes that only write: a relay reports the same, but not once it is dead, and an inbox reports it of the
// database that it works in. The database is asked when metrics are collected, at most every 30 s.
type Watch struct {
	db Source
	o  Options
}

var _ skald.Runner = (*Watch)(nil)

// NewWatch is a watch on the outbox in db. Of o it uses Now and MeterProvider.
func NewWatch(db Source, o *Options) *Watch {
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
	defer telemetry.WatchBacklog(telemetry.Providers{Meter: w.o.MeterProvider}, w.o.Now, w.db.Backlog, telemetry.Always)()
	<-ctx.Done()
	return nil
}
