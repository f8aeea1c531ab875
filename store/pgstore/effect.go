package pgstore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/effects"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/audit"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/kept"
	"github.com/skald-go/skald/store/pgstore/internal/outbox"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

var (
	errEnded = errors.New("the unit is ended")
	errKept  = fmt.Errorf("its message is kept: %w", store.ErrLost)
)

// entities are those that a transaction has locked: each is raised once, however often it is named. The
// version is 0 where only the server knows it yet.
type entities map[[2]string]int64

func byEntity(a, b store.Lock) int {
	return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Key, b.Key))
}

func lockArgs(l store.Lock) []any { return []any{column.Name(l.Space), column.Key(l.Key)} }

// intake are the calls that take in, their answers going to found.
func (c *core) intake(in store.Intake, found *store.Found) ([]pgrun.Call, error) {
	if c.pg.Err != nil {
		return nil, c.pg.Err
	}
	found.Marks, found.Steps, found.Locks = make([]store.Verdict, len(in.Marks)),
		make([]store.Step, len(in.Steps)), make([]int64, len(in.Locks))
	found.Sagas = make([]bool, len(in.Sagas))
	take := c.takeEach
	if many(in) {
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
		calls = append(calls, set) // last: a role or tenant is for the handler, not for marks and locks
	}
	return calls, nil
}

// takeEach takes mark by mark and lock by lock.
func (c *core) takeEach(in store.Intake, found *store.Found) ([]pgrun.Call, error) {
	calls, err := c.takeMarks(in, found.Marks)
	if err != nil {
		return nil, err
	}
	for _, i := range pgrun.Order(in.Steps, byStep) {
		take, err := c.takeStep(&in.Steps[i], &found.Steps[i])
		if err != nil {
			return nil, err
		}
		calls = append(calls, take)
	}
	last := -1
	for _, i := range pgrun.Order(in.Locks, byEntity) {
		if last >= 0 && byEntity(in.Locks[last], in.Locks[i]) == 0 {
			first, again := &found.Locks[last], &found.Locks[i]
			calls[len(calls)-1].Scan = chain(calls[len(calls)-1].Scan, func() { *again = *first })
			continue
		}
		last = i
		calls = append(calls, c.pg.Call("LockEntity", lockArgs(in.Locks[i])...).Into(&found.Locks[i]))
	}
	return calls, nil
}

// takeMarks are the calls for the marks of an intake, and their turns.
func (c *core) takeMarks(in store.Intake, found []store.Verdict) ([]pgrun.Call, error) {
	marks := in.Marks
	if len(marks) == 1 && isoLevel(in.Isolation) == pgx.ReadCommitted {
		if calls, err := c.alone(&marks[0], &found[0]); len(calls) > 0 || err != nil {
			return calls, err
		}
	}
	calls := c.kept.TakeTurns(marks, found)
	for _, i := range pgrun.Order(marks, byIdentity) {
		take, err := c.takeMark(&marks[i], &found[i])
		if err != nil {
			return nil, err
		}
		calls = append(calls, take...)
	}
	return calls, nil
}

func chain(scan func(pgrun.Scanner) error, then func()) func(pgrun.Scanner) error {
	return func(row pgrun.Scanner) error {
		if err := scan(row); err != nil {
			return err
		}
		then()
		return nil
	}
}

// locked are the entities that an intake has locked.
func locked(in store.Intake, found store.Found) entities {
	if len(in.Locks) == 0 {
		return nil
	}
	out := entities{}
	for i, l := range in.Locks {
		out[[2]string{l.Space, l.Key}] = found.Locks[i]
	}
	return out
}

// outflow are the calls that carry out es in one transaction, which has taken in those marks: guards first,
// then all rows, in order.
func (c *core) outflow(es []store.Effect, rows []outbox.Row, have entities,
	marks ...store.Mark) ([]pgrun.Call, error) {
	ours := kept.TakenOf(marks, es)
	calls := c.kept.FinishMany(es, ours)
	together := len(calls) > 0
	for i := range es {
		e := &es[i]
		if e.Mark != nil {
			calls = append(calls, c.kept.GuardTurn(e.Mark)...)
			mark, err := c.guardMark(e.Mark)
			if err != nil {
				return nil, err
			}
			calls = append(calls, mark...)
		}
		calls = append(calls, c.setStep(e.Step)...)
		locks, err := c.guardLocks(e.Locks, &have)
		if err != nil {
			return nil, err
		}
		calls = append(calls, locks...)
		moves, err := c.sagas.Move(e.Saga)
		if err != nil {
			return nil, err
		}
		calls = append(calls, moves...)
		more, err := outbox.Rows(e.Rows)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
		if e.Shard != nil {
			calls = append(calls, c.outbox.Progress(e.Shard)...)
		}
		apart, err := c.keepApart(e)
		if err != nil {
			return nil, err
		}
		keep, err := c.kept.Change(e, together, ours)
		if err != nil {
			return nil, err
		}
		calls = append(append(append(calls, apart...), keep...), c.operate(e)...)
		calls = append(calls, c.noteStep(e.Park)...)
	}
	if len(rows) > 0 {
		calls = append(calls, c.outbox.Insert(rows))
	}
	return calls, nil
}

// keepApart are the calls for what e does with answers, reservations and the quarantine.
func (c *core) keepApart(e *store.Effect) ([]pgrun.Call, error) {
	calls := c.guardReservation(e.Reservation)
	if e.Answer != nil {
		answer, err := c.answerMark(e.Answer)
		if err != nil {
			return nil, err
		}
		calls = append(calls, answer...)
	}
	apart, err := c.kept.Quarantine(e)
	return append(calls, apart...), err
}

// operate are the calls for what an operator does beside kept messages.
func (c *core) operate(e *store.Effect) (calls []pgrun.Call) {
	if e.Rewind != nil {
		calls = append(calls, c.consumers.Rewind(e.Rewind))
	}
	if e.Control != nil {
		calls = append(calls, c.consumers.Control(e.Control)...)
	}
	if e.DropDeferred != nil {
		calls = append(calls, c.outbox.DropDeferred(e.DropDeferred.ID)...)
	}
	if e.Audit != nil {
		calls = append(calls, audit.Note(c.pg, e.Audit))
	}
	return calls
}

// guardLocks locks what is not locked yet, and compares versions.
func (c *core) guardLocks(locks []store.Lock, have *entities) ([]pgrun.Call, error) {
	var calls []pgrun.Call
	for _, i := range pgrun.Order(locks, byEntity) {
		l := locks[i]
		key := [2]string{l.Space, l.Key}
		version, again := (*have)[key]
		switch {
		case again && (l.Version == 0 || l.Version == version):
			continue
		case again && version != 0:
			return nil, fmt.Errorf("lock %s %s is at %d, not %d: %w", l.Space, l.Key, version, l.Version,
				store.ErrLost)
		case again:
			calls = append(calls, c.pg.Call("CheckEntity", append(lockArgs(l), l.Version)...))
		case l.Version == 0:
			calls = append(calls, c.pg.Call("LockEntity", lockArgs(l)...))
		default:
			calls = append(calls, c.pg.Call("GuardEntity", append(lockArgs(l), l.Version)...))
		}
		if *have == nil {
			*have = entities{}
		}
		(*have)[key] = l.Version
	}
	return calls, nil
}

// messages are the rows of es.
func messages(es []store.Effect) []skald.Message {
	var out []skald.Message
	for _, e := range es {
		out = append(out, e.Rows...)
	}
	return out
}

// speaks tells whether es have any.
func speaks(es []store.Effect) bool {
	return slices.ContainsFunc(es, func(e store.Effect) bool { return len(e.Rows) > 0 })
}

// said are the rows of effects that may hold nothing else.
func said(es []store.Effect) ([]outbox.Row, error) {
	var out []outbox.Row
	for i := range es {
		e := &es[i]
		if !effects.RowsOnly(*e) {
			return nil, effects.ErrRowsOnly
		}
		rows, err := outbox.Rows(e.Rows)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}
