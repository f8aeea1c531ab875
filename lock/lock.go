// Package lock locks entities in the database, outside of a consumer: for a request, a job, or long work. A
// lock lasts for a transaction. The statement that begins the transaction also acquires the lock, and the end
// of the transaction releases it.
//
// Each commit under a lock increments the version of the entity. The version is the fencing token. Take
// commits a new version. Once stores later work with that token only if no other commit has locked the entity
// since.
//
// A consumer names its entities in inbox.Options.Transaction.Entities instead.
package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// Entity identifies a thing to lock. Space separates keys of different kinds, such as Space "order" and Key
// "42".
type Entity struct{ Space, Key string }

func (e Entity) String() string { return fmt.Sprintf("%s %.200q", e.Space, e.Key) }

// Token is the version of a locked entity.
type Token struct {
	Entity
	Version int64 // 1 for an entity that was never locked before
}

// Tokens has the tokens of all entities that were locked together.
type Tokens []Token

// Of returns the version of an entity, or 0 if ts does not have it.
func (ts Tokens) Of(space, key string) int64 {
	for _, t := range ts {
		if t.Space == space && t.Key == key {
			return t.Version
		}
	}
	return 0
}

// OvertakenError reports that another commit has locked an entity since its token was taken. Nothing was
// written.
type OvertakenError struct {
	Token       // the token of the caller
	Found int64 // the current version of the entity
}

func (e *OvertakenError) Error() string {
	return fmt.Sprintf(
		"lock: %s was overtaken: its version is %d, the token is %d; read the entity and begin again",
		e.Entity, e.Found, e.Version)
}

// ErrNothing is returned if no entity is given, or if an entity has no space or no key.
var ErrNothing = errors.New("lock: no entity is named: give at least one, with a space and a key")

// Work describes a unit of work for Once.
type Work struct {
	Scope, Key string // identify the work, as in once.Do
	Payload    []byte // must be the same in each call with the same key
	// Entities are locked in the same round trip. Two callers never deadlock, in any order of entities.
	Entities []Entity
	// Held has tokens from Take. Once also locks their entities. It stores the work only if no other commit
	// has locked one of them since Take; otherwise it returns an *OvertakenError. If the database was
	// restored to an earlier state, take new tokens, because it has lost later versions.
	Held Tokens
	// Wait limits the wait for another transaction that has locked the key or an entity. After it, Once
	// returns store.ErrBusy. Default 5 s.
	Wait time.Duration
	// Keep is the time for which the result is stored, as in once.Request. Default: the retention of marks.
	Keep time.Duration
}

// Request returns the request of w for package once. It omits the entities.
func (w Work) Request() once.Request {
	return once.Request{Scope: w.Scope, Key: w.Key, Payload: w.Payload, Wait: w.Wait, Keep: w.Keep}
}

// Once locks the entities of w, and calls fn at most once per key. The rows that fn writes, its result and
// the mark of the key are committed together. If the key was done before, Once returns the stored result,
// even if other commits have locked the entities since. In other respects it works like once.Do.
func Once[TTx, R any](ctx context.Context, db once.Store[TTx], w Work,
	fn func(ctx context.Context, tx TTx, t Tokens) (R, error)) (result R, replayed bool, err error) {
	all := w.Entities
	for _, t := range w.Held {
		all = append(all[:len(all):len(all)], t.Entity)
	}
	locks, err := locked(all)
	if err != nil {
		return result, false, err
	}
	q := w.Request()
	q.Locks = locks
	return once.DoRequest(ctx, db, q, func(ctx context.Context, run *once.Run[TTx]) (r R, err error) {
		ts := tokens(run.Locks())
		for _, held := range w.Held {
			if now := ts.Of(held.Space, held.Key) - 1; now != held.Version {
				return r, &OvertakenError{Token: held, Found: now}
			}
		}
		return fn(ctx, run.Tx(), ts)
	})
}

// Take locks entities and commits immediately. This increments their versions, so that older tokens are
// overtaken. Take waits at most 5 s for transactions that have locked one of the entities. Then it returns
// store.ErrBusy.
func Take[TTx any](ctx context.Context, db once.Store[TTx], es ...Entity) (Tokens, error) {
	locks, err := locked(es)
	if err != nil {
		return nil, err
	}
	unit, err := db.Begin(ctx, store.Intake{Locks: locks})
	if err != nil {
		return nil, fmt.Errorf("lock %v: %w", es, err)
	}
	ts := numbered(locks, unit.Found().Locks)
	if err := unit.Commit(ctx); err != nil {
		return nil, fmt.Errorf("lock %v: %w", es, err)
	}
	return ts, nil
}

// In locks entities in the caller's transaction tx, in one round trip. The lock timeout of tx applies. The
// commit of tx increments the versions.
func In[TTx any](ctx context.Context, db once.Store[TTx], tx TTx, es ...Entity) (Tokens, error) {
	locks, err := locked(es)
	if err != nil {
		return nil, err
	}
	found, err := db.Enter(ctx, tx, store.Intake{Locks: locks})
	if err != nil {
		return nil, fmt.Errorf("lock %v: %w", es, err)
	}
	return numbered(locks, found.Locks), nil
}

// locked converts es to locks of a store. It removes duplicates.
func locked(es []Entity) ([]store.Lock, error) {
	if len(es) == 0 {
		return nil, ErrNothing
	}
	out, seen := make([]store.Lock, 0, len(es)), map[Entity]bool{}
	for _, e := range es {
		if e.Space == "" || e.Key == "" {
			return nil, fmt.Errorf("%w, not %s", ErrNothing, e)
		}
		if !seen[e] {
			seen[e] = true
			out = append(out, store.Lock{Space: e.Space, Key: e.Key})
		}
	}
	return out, nil
}

func numbered(locks []store.Lock, versions []int64) Tokens {
	for i, version := range versions {
		locks[i].Version = version
	}
	return tokens(locks)
}

func tokens(locks []store.Lock) Tokens {
	out := make(Tokens, len(locks))
	for i, l := range locks {
		out[i] = Token{Entity{l.Space, l.Key}, l.Version}
	}
	return out
}
