package pgstore

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// How many units in a row may have one connection: others wait for it, too, of whom we know nothing; and
// where a Begin is known to wait.
const (
	mostFollowing = 16
	fewFollowing  = 4
)

// CommitThen is Commit and Begin in one round trip, for one message, or one saga, that locks no entities:
// nothing is waited for but what a rival does with the same message or saga. Now and then the connection is
// given back instead, and always where the pool's owner wants to know of each use.
func (u *unit) CommitThen(ctx context.Context, next store.Intake,
	es ...store.Effect) (store.Unit[pgx.Tx], error) {
	if u.conn == nil || !u.yields(next) {
		return nil, u.Commit(ctx, es...)
	}
	then, conn := &unit{s: u.s, nth: u.nth + 1}, u.conn.Conn()
	take, err := u.s.intake(next, &then.found)
	if err != nil {
		return nil, u.Commit(ctx, es...)
	}
	now, later := apart(next, u.s.bind(next, take))
	if !prepared(conn, now) {
		return nil, u.Commit(ctx, es...)
	}
	if now = u.s.tried(now); now == nil {
		return nil, u.Commit(ctx, es...)
	}
	begun := false
	err = u.s.roundTrip(ctx, u.conn, next.Wait, func(ctx context.Context) error {
		calls, err := u.last(ctx, conn, es)
		if err == nil {
			begun, err = sqlexec.SendFollowing(ctx, conn, calls, now)
		}
		return err
	})
	tx := u.tx.live() // pgx's own, which knows of nothing but the connection
	if err = u.committed(ctx, err, es); err == nil && begun {
		look := func(ctx context.Context) (err error) {
			tx, err = then.look(ctx, conn, tx, next, later)
			return err
		}
		begun = u.s.roundTrip(ctx, u.conn, next.Wait, look) == nil
	}
	if err != nil || !begun {
		_ = sqlexec.Undo(ctx, conn)
		u.end()
		return nil, err
	}
	u.tx.end()
	then.lend(u.leave(), tx, next)
	return then, nil
}

// yields tells whether the connection may go on to next.
func (u *unit) yields(next store.Intake) bool {
	s, most := u.s, mostFollowing
	if s.waiting.Load() > 0 {
		most = fewFollowing
	}
	one := len(next.Marks) == 1 && len(next.Sagas) == 0 || len(next.Marks) == 0 && len(next.Steps) == 0 &&
		len(next.Sagas) == 1
	return u.nth < most && !s.hooked && !u.tx.unshared && !u.tx.sets && len(next.Locks) == 0 && one &&
		isoLevel(next.Isolation) == pgx.ReadCommitted
}

// tried are the calls of an intake that tries the lock of its key instead of waiting for it; nil: it locks
// otherwise.
func (c *core) tried(calls []sqlexec.Call) []sqlexec.Call {
	switch calls[0].SQL {
	case c.pg.SQL["TakeArrive"]:
		calls[0].SQL = c.pg.SQL["FollowArrive"]
		return calls
	case c.pg.SQL["TakeSaga"]:
		calls[0].SQL = c.pg.SQL["FollowSaga"]
		return calls
	case c.pg.SQL["TakeKeyOrder"]:
		return slices.Insert(calls, 0, c.pg.Call("FollowKeyOrder", calls[0].Args[0]))
	}
	return nil
}

const preparedKey = "skald: statements of intakes"

// prepares notes that conn has carried out calls, so that they are prepared there, or can be.
func prepares(conn *pgx.Conn, calls []sqlexec.Call) {
	data := conn.PgConn().CustomData()
	texts, _ := data[preparedKey].(map[string]bool)
	if texts == nil {
		texts = map[string]bool{}
		data[preparedKey] = texts
	}
	for _, c := range calls {
		texts[c.SQL] = true
	}
}

// prepared tells whether conn has carried out such calls before. Statements that are new to it are prepared
// before all others of a pipeline: one for which a right is missing would fail the transaction that is to be
// committed.
func prepared(conn *pgx.Conn, calls []sqlexec.Call) bool {
	texts, _ := conn.PgConn().CustomData()[preparedKey].(map[string]bool)
	for _, c := range calls {
		if !texts[c.SQL] {
			return false
		}
	}
	return true
}
