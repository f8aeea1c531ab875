package engine

import (
	"context"
	"slices"

	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/store"
)

// introduce logs once the sagas that the engine runs, and its database.
func (e *Engine[TTx]) introduce(ctx context.Context) {
	if e.introduced {
		return
	}
	e.introduced = true
	var names []string
	for d := range e.book.All {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	e.o.Logger.InfoContext(ctx, "saga: running", "sagas", names, "session", e.session, "store",
		endpoint.DriverName(e.db))
	endpoint.Warn(ctx, e.o.Logger, "saga", e.db)
}

// logReady logs once that the engine polls for sagas. Then it starts the checks of checkPeers in the
// background.
func (e *Engine[TTx]) logReady(ctx context.Context) {
	if e.looked {
		return
	}
	e.looked = true
	e.o.Logger.InfoContext(ctx, "saga: ready")
	e.workers.Go(func() { e.checkPeers(ctx) })
}

// checkPeers warns of sagas without an engine that has their definition. It also warns of commands without a
// consumer for their replies. A warning may be too early: the other process may not have started yet.
func (e *Engine[TTx]) checkPeers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	b, err := store.ReadBacklog(ctx, e.db)
	if err != nil || b.Uncounted != nil {
		e.o.Logger.DebugContext(ctx, "saga: check for sagas of other names", "error", err, "uncounted",
			b.Uncounted)
	}
	if err != nil {
		return
	}
	for _, c := range b.Sagas {
		switch {
		case e.book.Named(c.Name) != nil || c.Running+c.Compensating == 0:
		case c.Overdue > 0:
			e.o.Logger.WarnContext(ctx, "saga: no engine runs the sagas of this name, and this engine has no definition of it",
				"name", c.Name, "running", c.Running, "compensating", c.Compensating, "overdue", c.Overdue,
				"remedy", "start the service whose engine has this definition, or give it to this engine")
		default:
			e.o.Logger.InfoContext(ctx, "saga: another engine runs the sagas of this name; this engine has no definition of it",
				"name", c.Name, "running", c.Running, "compensating", c.Compensating)
		}
	}
	if e.asked.Load() {
		return
	}
	for _, un := range unhandledReplies(e.book, b.Consumers) {
		e.o.Logger.WarnContext(ctx, "saga: no consumer of this database has ever handled the replies to "+
			"these commands: their sagas wait forever", "saga", un.Saga, "steps", un.Steps,
			"topics", un.Topics,
			"remedy", "give an inbox to engine.Answers, here or in another process; or give replies to Answer of saga.Bind")
	}
}
