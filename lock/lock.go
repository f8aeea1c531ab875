// Package lock locks entities in the database, outside of a consumer: for a request, a job, or long work. A
// lock lasts for a transaction. It is acquired in the round trip that begins the transaction and released
// however that ends. Each commit under a lock raises the entity's version, which is the fencing token. Take
// commits a new version; later work with that token is stored only if no other commit had the entity in
// between.
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

// Entity is a thing to lock. Space separates keys of different kinds: "order" and "42".
type Entity struct{ Space, Key string }

func (e Entity) String() string { return fmt.Sprintf("%s %.200q", e.Space, e.Key) }

// Token is the version of a locked entity.
type Token struct {
	Entity
	Version int64 // 1 for an entity that was never locked before
}

// Tokens are the tokens of all entities that were locked together.
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

// OvertakenError reports that another commit had an entity since its token was taken. Nothing was written.
type OvertakenError struct {
	Token       // the old token
	Found int64 // the current version of the entity
}

func (e *OvertakenError) Error() string {
	return fmt.Sprintf(
		"lock: %s was overtaken: its version is %d, the token is %d; read the entity and begin again",
		e.Entity, e.Found, e.Version)
}

// ErrNothing is the error of a lock without an entity.
var ErrNothing = errors.New("lock: no entity is named: give at least one, with a space and a key")

// Work is a unit of work for Once, and the entities that it locks.
type Work struct {
	Scope, Key string // of the work, as in once.Do
	Payload    []byte // must be equal whenever the key is
	// Entities are locked in the same round trip. Two callers never deadlock, in any order of entities.
	Entities []Entity
	// Held are tokens from Take. Their entities are locked, too. The work is stored only if no other commit
	// had one of them since. Otherwise Once returns an *OvertakenError. After a database went back in time,
	// take new tokens: it has lost later versions.
	Held Tokens
	// Wait limits the wait for a rival that has the key or an entity; then store.ErrBusy. Default 5 s.
	Wait time.Duration
	// Keep is how long the result is kept, as in once.Request. Default: the retention of marks.
	Keep time.Duration
}

// Request converts w for package once, without its entities.
func (w Work) Request() once.Request {
	return once.Request{Scope: w.Scope, Key: w.Key, Payload: w.Payload, Wait: w.Wait, Keep: w.Keep}
}

// Once locks entities, then runs fn once per key: its rows, its result and the mark are one commit. It first
// checks the key. A repeat returns the stored result, even if another commit had the entities since. The rest
// is as in once.Do.
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

// Take locks entities and commits immediately, which raises their versions: older tokens are overtaken from
// then on. It waits at most 5 s for transactions that have one of them locked, then returns store.ErrBusy.
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

// In locks entities in a transaction of the caller, in one round trip. The transaction's own lock timeout
// applies. Its commit raises the versions.
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

// locked converts es for a store, without duplicates.
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
