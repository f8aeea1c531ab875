package engine

import (
	"context"
	"slices"

	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/store"
)

// introduce says, once, which sagas the engine runs, and where.
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

// sayReady says, once, that the engine has looked for sagas; and, beside its work, what it finds around it.
func (e *Engine[TTx]) sayReady(ctx context.Context) {
	if e.looked {
		return
	}
	e.looked = true
	e.o.Logger.InfoContext(ctx, "saga: ready")
	e.workers.Add(1)
	go func() {
		defer e.workers.Done()
		e.lookAround(ctx)
	}()
}

// lookAround warns of sagas that wait for what is not there: an engine that knows their name, a consumer of
// their replies. Each may be in another process.
func (e *Engine[TTx]) lookAround(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	b, err := store.ReadBacklog(ctx, e.db)
	if err != nil || b.Uncounted != nil {
		e.o.Logger.DebugContext(ctx, "saga: look for sagas of other names", "error", err, "uncounted",
			b.Uncounted)
	}
	if err != nil {
		return
	}
	for _, c := range b.Sagas {
		switch {
		case e.book.Named(c.Name) != nil || c.Running+c.Compensating == 0:
		case c.Overdue > 0:
			e.o.Logger.WarnContext(ctx, "saga: no engine takes the sagas of a name, and this one does not know it",
				"name", c.Name, "running", c.Running, "compensating", c.Compensating, "overdue", c.Overdue,
				"remedy", "start the service whose engine has this definition, or give it to this engine")
		default:
			e.o.Logger.InfoContext(ctx, "saga: sagas of a name that this engine does not know are another one's",
				"name", c.Name, "running", c.Running, "compensating", c.Compensating)
		}
	}
	if e.asked.Load() {
		return
	}
	for _, un := range unheardOf(e.book, b.Consumers) {
		e.o.Logger.WarnContext(ctx, "saga: no consumer of this database was ever heard of that handles replies to "+
			"commands: their sagas wait for ever", "saga", un.Saga, "steps", un.Steps, "topics", un.Topics,
			"remedy", "give an inbox to engine.Answers, here or in another process; or give replies to Answer of saga.Bind")
	}
}
