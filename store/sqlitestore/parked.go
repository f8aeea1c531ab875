package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/held"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/audit"
	"github.com/skald-go/skald/store/sqlitestore/internal/column"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlrun"
)

const (
	maxWhy   = 4 << 10  // of an error
	maxStack = 16 << 10 // of a panic
)

// A keptRow is what decides about a kept message.
type keptRow struct {
	place    int64
	key      sql.Null[[]byte]
	attempts int
	died     string // "": it is no dead letter
}

func (k *keptRow) dead() bool { return k.died != "" }

func findKept(ctx context.Context, x *sqlrun.Session, consumer string,
	id store.Identity) (k keptRow, there bool, err error) {
	err = x.Row(ctx, "FindParked", consumer, id.Source, id.ID).Scan(&k.place, &k.key, &k.attempts, &k.died)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return k, false, nil
	case err != nil:
		return k, false, fmt.Errorf("find kept message: %w", err)
	}
	return k, true, nil
}

// firstOf is the place of the first message that holds a key, behind that place; 0: none does.
func firstOf(ctx context.Context, x *sqlrun.Session, consumer string, key []byte,
	behind int64) (place int64, err error) {
	if key == nil {
		return 0, nil
	}
	err = x.Row(ctx, "FirstOfKey", consumer, key, behind).Scan(&place)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("find the first of a key: %w", err)
	}
	return place, nil
}

// An ahead is, of each key, the place of the last message that comes before another one in an intake, if
// those are the ones that are first; -1: they are not.
type ahead map[[2]string]int64

// turn says how m stands; Fresh, if it may be taken. The transaction holds the only write lock there is.
func turn(ctx context.Context, x *sqlrun.Session, m *store.Mark, before ahead) (store.Outcome, error) {
	k, there, err := findKept(ctx, x, m.Consumer, m.Identity)
	if err != nil {
		return 0, err
	}
	of := [2]string{m.Consumer, string(m.Key)}
	behind := before[of]
	if m.KeyOrder != store.Retrying {
		behind = 0
	}
	first, err := firstOf(ctx, x, m.Consumer, m.Key, max(behind, 0))
	if err != nil {
		return 0, err
	}
	switch {
	case m.KeyOrder == store.Retrying:
		stands := there && !k.dead() && k.attempts == m.Attempts &&
			(m.Key == nil || behind >= 0 && first == k.place)
		if m.Key != nil && before != nil {
			before[of] = -1
			if stands {
				before[of] = k.place
			}
		}
		if !stands {
			return store.Stale, nil
		}
	case there && k.dead():
		return store.Dead, nil
	case there:
		return store.Waiting, nil
	case first != 0:
		return store.Behind, nil
	}
	return store.Fresh, nil
}

// keep carries out what e says of kept messages.
func keep(ctx context.Context, x *sqlrun.Session, e *store.Effect) error {
	if e.Park != nil {
		if err := park(ctx, x, e.Park); err != nil {
			return err
		}
		if err := noteStep(ctx, x, e.Park); err != nil {
			return err
		}
	}
	if r := e.Requeue; r != nil && r.Dead {
		if err := releaseDead(ctx, x, r); err != nil {
			return err
		}
	} else if r != nil {
		if err := release(ctx, x, "RequeueParked", r); err != nil {
			return err
		}
	}
	if f := e.Finish; f != nil {
		var at any // the call; nil: any
		if f.Attempts != nil {
			at = held.CallKey(f.WasCall)
		}
		err := stillDead(ctx, x, f.Consumer, f.Identity, f.DeadAt)
		if err == nil {
			err = change(ctx, x, "DeleteParked", f.Consumer, f.Identity, f.Attempts, at, f.Place)
		}
		if err != nil {
			return err
		}
	}
	if r := e.Rewind; r != nil {
		if err := rewind(ctx, x, r); err != nil {
			return err
		}
	}
	if err := operate(ctx, x, e); err != nil {
		return err
	}
	return audit.Note(ctx, x, e.Audit)
}

// change runs a statement about one kept message, which must be there, and parked with those attempts if any
// are asked for.
func change(ctx context.Context, x *sqlrun.Session, name, consumer string, id store.Identity, attempts *int,
	more ...any) error {
	k, there, err := findKept(ctx, x, consumer, id)
	if err != nil {
		return err
	}
	if !there || attempts != nil && (k.dead() || k.attempts != *attempts) {
		return fmt.Errorf("%s is not kept as it was: %w", id.ID, store.ErrLost)
	}
	switch n, err := x.Count(ctx, name, append([]any{consumer, id.Source, id.ID}, more...)...); {
	case err != nil:
		return fmt.Errorf("change kept message: %w", err)
	case n == 0:
		return fmt.Errorf("%s is not at the call or the place that it was at: %w", id.ID, store.ErrLost)
	}
	return settleKey(ctx, x, consumer, column.Blob(k.key))
}

// settleKey makes the first of a key due and the others wait.
func settleKey(ctx context.Context, x *sqlrun.Session, consumer string, key []byte) error {
	first, err := firstOf(ctx, x, consumer, key, 0)
	if err != nil || first == 0 {
		return err
	}
	if _, err := x.Exec(ctx, "OthersWait", consumer, key, first); err != nil {
		return fmt.Errorf("let others of a key wait: %w", err)
	}
	if _, err := x.Exec(ctx, "FirstIsDue", first); err != nil {
		return fmt.Errorf("make the next of a key due: %w", err)
	}
	return nil
}

func park(ctx context.Context, x *sqlrun.Session, p *store.Park) error {
	if p.Was != nil {
		at, err := held.EncodeCall(p.Call)
		if err != nil {
			return err
		}
		var claims any
		sessionID := ""
		if c := p.WasClaim; c != nil {
			claims, sessionID = c.Claims, c.Session
		}
		return change(ctx, x, "UpdateParked", p.Consumer, p.Identity, p.Was,
			append(stateArgs(&p.Parked), at, p.Claims, p.CrashCount, p.Session, held.CallKey(p.WasCall),
				claims, sessionID)...)
	}
	var done store.Verdict
	err := verdict(x.Row(ctx, "FindMark", p.Consumer, p.Source, p.ID), &done)
	if err == nil && !p.Marked {
		return fmt.Errorf("%s is finished: %w", p.ID, store.ErrLost)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("find mark: %w", err)
	}
	_, there, err := findKept(ctx, x, p.Consumer, p.Identity)
	switch {
	case err != nil:
		return err
	case there:
		return fmt.Errorf("%s is kept: %w", p.ID, store.ErrLost)
	case p.Instead != nil:
		return replaceKept(ctx, x, p)
	}
	return insertKept(ctx, x, p)
}

func insertKept(ctx context.Context, x *sqlrun.Session, p *store.Park) error {
	m := &p.Message
	args, err := keptArgs(p)
	if err != nil {
		return err
	}
	var rows, size, nth, running int64
	if m.Key != nil {
		err = x.Row(ctx, "RoomOfKey", p.Consumer, m.Key).Scan(&rows, &size, &nth, &running)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("measure key: %w", err)
		}
	}
	if p.MostRows > 0 && rows >= p.MostRows || p.MostBytes > 0 && size >= p.MostBytes {
		return fmt.Errorf("the key of %s is full: %w", p.ID, store.ErrLost)
	}
	at, err := held.EncodeCall(p.Call)
	if err != nil {
		return err
	}
	waiting := rows > 0 && (p.Dead == nil || p.Dead.BlocksKey)
	if _, err := x.Exec(ctx, "InsertParked", append(args, waiting, nth+1, running+keptSize(m), at, p.Claims,
		p.CrashCount, p.Session)...); err != nil {
		return fmt.Errorf("park message: %w", err)
	}
	return nil
}

// replaceKept puts a message where another one of its key is.
func replaceKept(ctx context.Context, x *sqlrun.Session, p *store.Park) error {
	args, err := keptArgs(p)
	if err != nil {
		return err
	}
	at, err := held.EncodeCall(p.Call)
	if err != nil {
		return err
	}
	_, there, err := findKept(ctx, x, p.Consumer, *p.Instead)
	switch {
	case err != nil:
		return err
	case !there:
		return fmt.Errorf("%s is not kept: %w", p.Instead.ID, store.ErrLost)
	}
	if err := stepBack(ctx, x, p.Consumer, *p.Instead); err != nil {
		return err
	}
	switch n, err := x.Count(ctx, "ReplaceParked", append(args, p.Instead.Source, p.Instead.ID, at)...); {
	case err != nil:
		return fmt.Errorf("replace kept message: %w", err)
	case n == 0:
		return fmt.Errorf("%s is at a call: %w", p.Instead.ID, store.ErrLost)
	}
	return settleKey(ctx, x, p.Consumer, p.Message.Key)
}

func keptSize(m *skald.Message) int64 { return int64(len(m.Key) + len(m.Data)) }

// keptArgs are the columns of a message that is kept, but those of its place.
func keptArgs(p *store.Park) ([]any, error) {
	m := &p.Message
	env, err := held.Envelope(m, m.Key)
	if err != nil {
		return nil, err
	}
	args := append([]any{p.Consumer, p.Source, p.ID}, stateArgs(&p.Parked)...)
	return append(args, column.Bytes(m.Key), m.Topic, m.Type, column.Bytes(m.Data), env, keptSize(m),
		p.Partition, p.Position,
		p.Fault), nil
}

// stateArgs are the columns that an attempt changes, from attempts on.
func stateArgs(p *store.Parked) []any {
	d, dead := store.Death{BlocksKey: true}, any(nil)
	if p.Dead != nil {
		d = *p.Dead
		dead = d.At.UTC().Format(time.RFC3339Nano)
	}
	return []any{p.Attempts, p.Due.Milliseconds(), d.BlocksKey, column.Moment(p.First.At),
		column.ClipTo(p.First.Why, maxWhy), p.First.Host,
		column.Moment(p.Last.At), column.ClipTo(p.Last.Why, maxWhy), p.Last.Host, dead, d.Kind, d.Fingerprint,
		column.ClipTo(d.Stack, maxStack), d.Version}
}

// scanKept reads what Claim and Kept return.
func scanKept(scan func(...any) error) (p store.Parked, err error) {
	var (
		key, data, env        sql.Null[[]byte]
		firstAt, lastAt, died sql.NullString
		at                    *string
		d                     store.Death
		due, since            int64
	)
	if err := scan(&p.Consumer, &p.Source, &p.ID, &p.Attempts, &due, &d.BlocksKey, &firstAt, &p.First.Why,
		&p.First.Host, &lastAt, &p.Last.Why,
		&p.Last.Host, &died, &d.Kind, &d.Fingerprint, &d.Stack, &d.Version, &key, &data, &env, &p.Partition,
		&p.Position, &p.Fault,
		&p.Waiting, &p.Place, &since, &at, &p.Claims, &p.CrashCount, &p.Session); err != nil {
		return p, err
	}
	if p.Message, err = held.Open(env.V, column.Blob(key), column.Blob(data)); err != nil {
		// it is its own fault: others are read
		p.Message, p.Fault = skald.Message{ID: p.ID, Source: p.Source, Key: column.Blob(key),
			Data: column.Blob(data)},
			column.Fault(err)
	}
	if p.Call, err = held.DecodeCall(at); err != nil {
		p.Fault = column.Fault(err)
	} else if p.Call != nil {
		p.Call.Age = time.Since(p.Call.Since) // the clock of the database is the host's
	}
	p.Since = time.UnixMilli(since).UTC()
	p.First.At, p.Last.At = column.ReadTime(firstAt.String), column.ReadTime(lastAt.String)
	if died.Valid {
		d.At = column.ReadTime(died.String)
		p.Dead = &d
	}
	if p.Dead == nil && !p.Waiting {
		p.Due = time.Duration(due) * time.Millisecond
	}
	return p, nil
}

// keeping counts what is kept for a consumer.
func (s *Store) keeping(ctx context.Context, consumer string) (n store.Keeping, err error) {
	p, err := s.run.Prepare(ctx)
	if err != nil {
		return n, sqlrun.Failed("count kept messages", err)
	}
	var oldest int64
	err = p.Row(ctx, "Keeping", consumer).Scan(&n.Parked, &n.Dead, &n.Bytes, &oldest)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return n, sqlrun.Failed("count kept messages", err)
	}
	n.Oldest = time.Duration(oldest) * time.Millisecond
	return n, nil
}
