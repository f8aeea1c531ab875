package pgstore

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Maximum number of units in a row on one connection: normally, and while a Begin waits for a connection.
// Other users of the pool may wait, too.
const (
	maxFollowing     = 16
	maxFollowingBusy = 4
)

// CommitThen does Commit and Begin in one round trip if next is for one message or one saga and locks no
// entities. Then the begin waits at most for a rival with the same message or saga. After several units in
// a row it returns the connection to the pool instead, and it always does so if the pool has hooks.
func (u *unit) CommitThen(ctx context.Context, next store.Intake,
	es ...store.Effect) (store.Unit[pgx.Tx], error) {
	if u.ended() || !u.canFollow(next) {
		return nil, u.Commit(ctx, es...)
	}
	then, conn := &unit{s: u.s, nth: u.nth + 1, reported: u.reported}, u.conn
	take, err := u.s.intake(next, &then.found)
	if err != nil {
		return nil, u.Commit(ctx, es...)
	}
	now, later := splitNeeded(next, u.s.bind(next, take))
	if !prepared(conn, now) {
		return nil, u.Commit(ctx, es...)
	}
	if now = u.s.tryingLocks(now); now == nil {
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
	tx := u.tx.live() // pgx's own, which depends on nothing but the connection
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
	pooled := u.leave()
	if pooled == nil { // dropped after the commit
		return nil, nil
	}
	then.lend(pooled, tx, next)
	return then, nil
}

// canFollow reports whether next may use the connection of u.
func (u *unit) canFollow(next store.Intake) bool {
	s, most := u.s, maxFollowing
	if s.waiting.Load() > 0 {
		most = maxFollowingBusy
	}
	one := len(next.Marks) == 1 && len(next.Sagas) == 0 || len(next.Marks) == 0 && len(next.Steps) == 0 &&
		len(next.Sagas) == 1
	return u.nth < most && isoLevel(u.level) == pgx.ReadCommitted &&
		!s.hooked && !u.tx.unshared && !u.tx.sets && !u.changed() && len(next.Locks) == 0 && one &&
		isoLevel(next.Isolation) == pgx.ReadCommitted
}

// tryingLocks returns calls that try to lock the key instead of waiting for it. Returns nil for other
// intakes.
func (c *core) tryingLocks(calls []sqlexec.Call) []sqlexec.Call {
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

// notePrepared records that conn ran calls, so it has prepared them or can.
func notePrepared(conn *pgx.Conn, calls []sqlexec.Call) {
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

// prepared reports whether conn ran such calls before. pgx prepares new statements before it sends the
// pipeline. If a right for one is missing, that would abort the transaction to be committed.
func prepared(conn *pgx.Conn, calls []sqlexec.Call) bool {
	texts, _ := conn.PgConn().CustomData()[preparedKey].(map[string]bool)
	for _, c := range calls {
		if !texts[c.SQL] {
			return false
		}
	}
	return true
}
