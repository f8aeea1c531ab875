package pgstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/query"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// intake returns the calls at the begin of a transaction. They take marks and steps, and lock entities and
// sagas. They write their results to found.
func (c *core) intake(in store.Intake, found *store.Found) ([]sqlexec.Call, error) {
	if c.pg.Err != nil {
		return nil, c.pg.Err
	}
	found.Marks, found.Steps, found.Locks = make([]store.Verdict, len(in.Marks)),
		make([]store.Step, len(in.Steps)), make([]int64, len(in.Locks))
	found.Sagas = make([]bool, len(in.Sagas))
	take := c.takeEach
	if query.Many(in) {
		take = c.takeMany
	}
	calls, err := take(in, found)
	if err != nil {
		return nil, err
	}
	calls = append(calls, c.sagas.Hold(in.Sagas, found.Sagas)...)
	if len(in.Settings) > 0 {
		set, err := c.pg.Settings(in.Settings)
		if err != nil {
			return nil, err
		}
		calls = append(calls, set) // last, because a role or tenant must not apply to marks and locks
	}
	return calls, nil
}

// takeEach returns a call for each mark, step and lock.
func (c *core) takeEach(in store.Intake, found *store.Found) ([]sqlexec.Call, error) {
	calls, err := c.marks.Take(in.Marks, found.Marks, isoLevel(in.Isolation) == pgx.ReadCommitted)
	if err != nil {
		return nil, err
	}
	if calls, err = c.takeSteps(calls, in, found); err != nil {
		return nil, err
	}
	return c.entities.Take(calls, in.Locks, found.Locks), nil
}

func (c *core) takeSteps(calls []sqlexec.Call, in store.Intake, found *store.Found) ([]sqlexec.Call, error) {
	for _, i := range sqlexec.Order(in.Steps, query.Compare) {
		take, err := c.steps.Take(&in.Steps[i], &found.Steps[i])
		if err != nil {
			return nil, err
		}
		calls = append(calls, take)
	}
	return calls, nil
}

// takeMany does as takeEach, with a few calls for all messages together.
func (c *core) takeMany(in store.Intake, found *store.Found) ([]sqlexec.Call, error) {
	calls, err := c.marks.TakeMany(in.Marks, found.Marks)
	if err != nil {
		return nil, err
	}
	if calls, err = c.takeSteps(calls, in, found); err != nil {
		return nil, err
	}
	calls = append(calls, c.entities.TakeMany(in.Locks, found.Locks)...)
	return append(calls, c.marks.Widen()), nil
}

// bind adds two calls to those of an intake. The first call sets the timeouts of the transaction, and the
// last call makes a COMMIT of the handler fail. If the first call of the intake can also set the timeouts,
// bind adds only the last call.
func (c *core) bind(in store.Intake, calls []sqlexec.Call) []sqlexec.Call {
	wait, idle := timeouts(in)
	if len(calls) > 0 && calls[0].With != "" {
		calls[0].SQL, calls[0].Args = calls[0].With,
			append(calls[0].Args, sqlexec.Millis(wait), sqlexec.Millis(idle))
	} else {
		calls = slices.Insert(calls, 0, c.pg.Session(wait, idle))
	}
	switch {
	case calls[0].Server:
		calls[0].Args = append(calls[0].Args, query.ServerStart(in.Server))
	case in.Server != "":
		calls = slices.Insert(calls, 1, c.pg.Call("GuardServer", query.ServerStart(in.Server)))
	}
	held := len(calls)
	if len(in.Settings) > 0 {
		held-- // the handler's role may not have the right to it
	}
	return slices.Insert(calls, held, c.pg.HoldLent())
}

// recordSession adds a call to the calls of an intake. The call records the session state of conn. It comes
// before the settings, because the settings may set a role.
func recordSession(conn *pgx.Conn, in store.Intake, calls []sqlexec.Call) []sqlexec.Call {
	record, first := sqlexec.Started(conn)
	if !first {
		return calls
	}
	at := len(calls)
	if len(in.Settings) > 0 {
		at--
	}
	return slices.Insert(calls, at, record)
}

// timeouts returns the lock timeout and the idle timeout of the transaction of an intake.
func timeouts(in store.Intake) (lockTimeout, idleTimeout time.Duration) {
	return cmp.Or(in.Wait, sqlexec.DefaultWait), cmp.Or(in.Handle, sqlexec.DefaultHandle)
}
