package pgstore

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Maximum number of units that use one connection in a row. The second limit applies while a Begin waits for
// a connection. The limits exist because other users of the pool may wait, too.
const (
	maxFollowing     = 16
	maxFollowingBusy = 4
)

// CommitThen commits this unit and begins the next one in one round trip. It does so only if the next unit
// has one message or one saga and locks no entities. Then only a rival for the same message or saga can
// delay the begin. Otherwise CommitThen only commits, and returns nil as the next unit. It also returns nil
// after several units in a row, so that the connection returns to the pool, and always if the pool has
// hooks.
func (u *unit) CommitThen(ctx context.Context, nextIntake store.Intake,
	es ...store.Effect) (store.Unit[pgx.Tx], error) {
	if u.hasEnded() || !u.canFollow(nextIntake) {
		return nil, u.Commit(ctx, es...)
	}
	then, conn := &unit{s: u.s, nth: u.nth + 1, reported: u.reported}, u.conn
	take, err := u.s.intake(nextIntake, &then.found)
	if err != nil {
		return nil, u.Commit(ctx, es...)
	}
	now, later := splitNeeded(nextIntake, u.s.bind(nextIntake, take))
	if !wasPrepared(conn, now) {
		return nil, u.Commit(ctx, es...)
	}
	if now = u.s.tryingLocks(now); now == nil {
		return nil, u.Commit(ctx, es...)
	}
	begun := false
	err = u.s.roundTrip(ctx, u.conn, nextIntake.Wait, func(ctx context.Context) error {
		calls, err := u.lastCalls(ctx, conn, es)
		if err == nil {
			begun, err = sqlexec.SendFollowing(ctx, conn, calls, now)
		}
		return err
	})
	tx := u.tx.live() // the pgx.Tx itself, which uses only the connection
	if err = u.committed(ctx, err, es); err == nil && begun {
		look := func(ctx context.Context) (err error) {
			tx, err = then.readVerdicts(ctx, conn, tx, nextIntake, later)
			return err
		}
		begun = u.s.roundTrip(ctx, u.conn, nextIntake.Wait, look) == nil
	}
	if err != nil || !begun {
		_ = sqlexec.Undo(ctx, conn)
		u.end()
		return nil, err
	}
	u.tx.end()
	pooled := u.leave()
	if pooled == nil { // Drop took the connection after the commit
		return nil, nil
	}
	then.lend(pooled, tx, nextIntake)
	return then, nil
}

// canFollow reports whether CommitThen may begin the next unit on the connection of u.
func (u *unit) canFollow(nextIntake store.Intake) bool {
	s, most := u.s, maxFollowing
	if s.waiting.Load() > 0 {
		most = maxFollowingBusy
	}
	one := len(nextIntake.Marks) == 1 && len(nextIntake.Sagas) == 0 ||
		len(nextIntake.Marks) == 0 && len(nextIntake.Steps) == 0 && len(nextIntake.Sagas) == 1
	return u.nth < most && isoLevel(u.level) == pgx.ReadCommitted &&
		!s.hooked && !u.tx.unshared && !u.tx.sets && !u.changed() && len(nextIntake.Locks) == 0 && one &&
		isoLevel(nextIntake.Isolation) == pgx.ReadCommitted
}

// tryingLocks changes the calls so that they try to lock the key and never wait for it. It returns nil if
// the calls are not those of one message or one saga.
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

// notePrepared records that conn ran the statements of these calls. So conn has prepared the statements, or
// has the rights to do so.
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

// wasPrepared reports whether conn ran the statements of these calls before. pgx prepares a new statement
// before it sends the pipeline. If the role has no right to the new statement, the server aborts the open
// transaction, and the unit could not commit.
func wasPrepared(conn *pgx.Conn, calls []sqlexec.Call) bool {
	texts, _ := conn.PgConn().CustomData()[preparedKey].(map[string]bool)
	for _, c := range calls {
		if !texts[c.SQL] {
			return false
		}
	}
	return true
}
