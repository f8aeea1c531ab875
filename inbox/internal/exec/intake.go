// This file builds the intake of a message: the rows and locks with which its transaction begins.

package exec

import (
	"context"
	"errors"
	"slices"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// withoutIntake fails a message if its intake cannot be built. If the message cannot be parked either, it may
// be a duplicate or a conflict. So withoutIntake then reads its mark.
func (x *Executor[TTx]) withoutIntake(ctx context.Context, e *partition.Entry, why error) Result {
	r := x.fail(ctx, e, x.db.Apply, why)
	if r.What != decide.Full || e.Parked != nil {
		return r
	}
	m := store.Mark{Consumer: x.o.Group, Identity: e.Identity(), Outcome: store.Done,
		Fingerprint: x.printOrZero(e),
		KeyOrder:    store.Arriving, Key: e.Key}
	intake := store.Intake{Marks: []store.Mark{m}, Server: e.Server, Wait: x.o.Wait, Handle: x.o.Handle}
	unit, err := x.db.Begin(ctx, intake)
	if err != nil {
		return r
	}
	switch unit.Found().Marks[0].Outcome {
	case store.Fresh, store.Behind:
		_, _ = unit.Rollback(ctx)
		return r
	}
	return x.carryOut(ctx, e, unit, intake)
}

// intake returns the mark, the step, the entities and the settings of e.
func (x *Executor[TTx]) intake(ctx context.Context, e *partition.Entry) (intake store.Intake, err error) {
	mark, err := x.mark(e)
	if err != nil {
		return intake, err
	}
	intake = store.Intake{
		Marks:     []store.Mark{mark},
		Server:    e.Server,
		Wait:      x.o.Wait,
		Handle:    x.o.Handle + grace,
		Isolation: x.o.Isolation,
	}
	if x.handlers[e.Kind()] == nil {
		return intake, nil // the functions below may fail for types without a handler
	}
	if e.Step, err = x.step(ctx, e); err != nil {
		return intake, err
	}
	if e.Step != nil {
		intake.Steps = []store.Step{*e.Step}
	}
	if x.o.Entities != nil {
		var locks []store.Lock
		m := copyOf(e)
		err = x.pure(e, "Options.Transaction.Entities", func() error { locks = x.o.Entities(m); return nil })
		if err != nil {
			return intake, err
		}
		intake.Locks = locks
		if slices.ContainsFunc(intake.Locks,
			func(l store.Lock) bool { return l.Space == "" || l.Key == "" }) {
			return intake, errNoEntity
		}
	}
	if x.o.Settings != nil {
		var settings []store.Setting
		m := copyOf(e)
		err = x.pure(e, "Options.Transaction.Settings", func() error {
			settings = x.o.Settings(m)
			return nil
		})
		if err != nil {
			return intake, err
		}
		intake.Settings = settings
	}
	return intake, nil
}

var errNoEntity = errors.New("inbox.Options.Transaction.Entities returned an entity without Space or Key: all such messages would wait for each other; give both, or leave it out")

// mark returns the mark of e, or the error of the fingerprint function.
func (x *Executor[TTx]) mark(e *partition.Entry) (store.Mark, error) {
	print, err := x.print(e)
	m := store.Mark{Consumer: x.o.Group, Identity: e.Identity(), Outcome: store.Done, Fingerprint: print,
		KeyOrder: store.Arriving, Key: e.Key}
	if e.Parked != nil {
		m.KeyOrder, m.Attempts, m.Held = store.Retrying, e.Parked.Attempts, true
	}
	return m, err
}
