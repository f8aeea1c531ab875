package pgstore

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
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
func (u *unit) CommitThen(ctx context.Context, next store.Intake, es ...store.Effect) (store.Unit[pgx.Tx], error) {
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
	calls, err := u.last(ctx, conn, es)
	begun := false
	if err == nil {
		begun, err = sendFollowing(ctx, conn, calls, now)
	}
	tx := u.tx.Tx // pgx's own, which knows of nothing but the connection
	if err = u.committed(ctx, err, es); err == nil && begun {
		if tx, err = then.look(ctx, conn, tx, next, later); err != nil {
			begun, err = false, nil
		}
	}
	if err != nil || !begun {
		_ = undo(ctx, conn)
		u.end()
		return nil, err
	}
	then.lend(u.conn, tx, next)
	u.tx.end()
	u.conn = nil
	return then, nil
}

// yields tells whether the connection may go on to next.
func (u *unit) yields(next store.Intake) bool {
	s, most := u.s, mostFollowing
	if s.waiting.Load() > 0 {
		most = fewFollowing
	}
	one := len(next.Marks) == 1 && len(next.Sagas) == 0 || len(next.Marks) == 0 && len(next.Steps) == 0 && len(next.Sagas) == 1
	return u.nth < most && !s.hooked && len(next.Locks) == 0 && one &&
		isoLevel(next.Isolation) == pgx.ReadCommitted
}

// tried are the calls of an intake that tries the lock of its key instead of waiting for it; nil: it locks
// otherwise.
func (c *core) tried(calls []call) []call {
	switch calls[0].sql {
	case c.sql["TakeArrive"]:
		calls[0].sql = c.sql["FollowArrive"]
		return calls
	case c.sql["TakeSaga"]:
		calls[0].sql = c.sql["FollowSaga"]
		return calls
	case c.sql["TakeKeyOrder"]:
		return slices.Insert(calls, 0, c.call("FollowKeyOrder", calls[0].args[0]))
	}
	return nil
}

// sendFollowing sends calls and a COMMIT, and behind it BEGIN and then. PostgreSQL skips what follows an
// error, so what is begun follows a commit that succeeded; err is the commit's.
func sendFollowing(ctx context.Context, conn *pgx.Conn, calls, then []call) (begun bool, err error) {
	b := &pgx.Batch{}
	queue(b, calls)
	b.Queue(commit)
	b.Queue(begin)
	queue(b, then)
	br := conn.SendBatch(ctx, b)
	defer br.Close()
	if err := answers(br, calls); err != nil {
		return false, err
	}
	if err := committed(br.Exec()); err != nil {
		return false, err
	}
	if _, err := br.Exec(); err != nil {
		return false, nil
	}
	return answers(br, then) == nil && br.Close() == nil, nil
}

const preparedKey = "skald: statements of intakes"

// prepares notes that conn has carried out calls, so that they are prepared there, or can be.
func prepares(conn *pgx.Conn, calls []call) {
	data := conn.PgConn().CustomData()
	texts, _ := data[preparedKey].(map[string]bool)
	if texts == nil {
		texts = map[string]bool{}
		data[preparedKey] = texts
	}
	for _, c := range calls {
		texts[c.sql] = true
	}
}

// prepared tells whether conn has carried out such calls before. Statements that are new to it are prepared
// before all others of a pipeline: one for which a right is missing would fail the transaction that is to be
// committed.
func prepared(conn *pgx.Conn, calls []call) bool {
	texts, _ := conn.PgConn().CustomData()[preparedKey].(map[string]bool)
	for _, c := range calls {
		if !texts[c.sql] {
			return false
		}
	}
	return true
}
