package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
)

// Tx is a transaction. Beside what Skald writes into it, it has a small table of the user's own: keys and
// values, seen by others once it is committed. A Tx is for one goroutine at a time.
type Tx struct {
	s      *Store
	lent   bool
	wait   time.Duration // for rivals
	handle time.Duration // how long it may be idle; 0: for ever
	used   time.Time
	began  time.Time

	over     error // why it ended; nil while it is open
	failed   error // what aborted it
	locks    []lockID
	waitsFor *Tx
	waiters  int // that wait for it

	user    map[string]*string // nil: deleted
	marks   view
	steps   stepView
	tracks  trackedView
	sagas   sagaView
	given   map[entity]int64
	rows    []outboxRow
	shards  []store.Progress
	admits  map[int64]bool        // numbers in quarantine that it admits
	changes []func(now time.Time) // what else the commit does, in order
	by      []*Store              // handles that wrote, to be woken
}

// begin opens a transaction; mu is held.
func (s *Store) begin() *Tx {
	tx := &Tx{s: s, wait: s.db.wait, user: map[string]*string{}, marks: s.db.marks.View(),
		steps:  s.db.steps.View(),
		tracks: s.db.tracked.View(), sagas: s.db.sagas.View(), given: map[entity]int64{}}
	if s.killed {
		tx.over = ErrKilled
		return tx
	}
	s.open[tx] = struct{}{}
	tx.touch()
	tx.began = tx.used
	return tx
}

func (tx *Tx) touch() { tx.used = tx.s.db.now() }

// idle is how long tx may still be left alone; false: for ever.
func (tx *Tx) idle() (time.Duration, bool) {
	if tx.handle == 0 || tx.waitsFor != nil {
		return 0, false
	}
	return tx.handle - tx.s.db.now().Sub(tx.used), true
}

// usable says why nothing more can be done in tx.
func (tx *Tx) usable() error {
	if idle, ends := tx.idle(); ends && idle <= 0 && tx.over == nil {
		tx.end(ErrIdle)
	}
	switch {
	case tx.over != nil:
		return tx.over
	case tx.failed != nil:
		return fmt.Errorf("%w: %w", ErrAborted, tx.failed)
	}
	return nil
}

// end undoes what was not committed and lets go of all locks.
func (tx *Tx) end(why error) {
	if tx.over != nil {
		return
	}
	tx.over = why
	delete(tx.s.open, tx)
	tx.s.db.release(tx)
}

// pass ends tx for a function that has returned, and returns the transaction for the next one. mu is held.
func (tx *Tx) pass() *Tx {
	next := *tx
	next.waiters, next.waitsFor = 0, nil
	for _, l := range tx.locks {
		tx.s.db.held[l] = &next
	}
	delete(tx.s.open, tx)
	tx.s.open[&next] = struct{}{}
	tx.over, tx.locks, tx.waitsFor = errReturned, nil, &next // rivals that wait for tx wait for next
	return &next
}

// do runs a statement: its error aborts the transaction.
func (tx *Tx) do(f func(d *database) error) error {
	d := tx.s.db
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := tx.usable(); err != nil {
		return err
	}
	tx.touch()
	defer tx.touch()
	err := f(d)
	if err != nil {
		tx.failed = err
	}
	return err
}

// Get reads a key of the user's table.
func (tx *Tx) Get(key string) (value string, ok bool) {
	_ = tx.do(func(d *database) error {
		value, ok = tx.get(d, key)
		return nil
	})
	return value, ok
}

func (tx *Tx) get(d *database, key string) (string, bool) {
	if v, mine := tx.user[key]; mine {
		if v == nil {
			return "", false
		}
		return *v, true
	}
	v, ok := d.user[key]
	return v, ok
}

// Put writes a key of the user's table, locked until the transaction ends. An error (store.ErrBusy: a rival
// had the key for too long) aborts the transaction.
func (tx *Tx) Put(key, value string) error {
	return tx.do(func(d *database) error {
		if err := tx.lock(d, key); err != nil {
			return err
		}
		tx.user[key] = &value
		return nil
	})
}

// Insert is Put where the key is not there yet; else ErrExists, which aborts the transaction.
func (tx *Tx) Insert(key, value string) error {
	return tx.do(func(d *database) error {
		if err := tx.lock(d, key); err != nil {
			return err
		}
		if _, taken := tx.get(d, key); taken {
			return fmt.Errorf("insert %q: %w", key, ErrExists)
		}
		tx.user[key] = &value
		return nil
	})
}

// Update locks a key, then writes what f makes of its value ("" and false: it is not there).
func (tx *Tx) Update(key string, f func(old string, ok bool) string) error {
	return tx.do(func(d *database) error {
		if err := tx.lock(d, key); err != nil {
			return err
		}
		v := f(tx.get(d, key))
		tx.user[key] = &v
		return nil
	})
}

// Delete removes a key, if it is there.
func (tx *Tx) Delete(key string) error {
	return tx.do(func(d *database) error {
		if err := tx.lock(d, key); err != nil {
			return err
		}
		tx.user[key] = nil
		return nil
	})
}

func (tx *Tx) lock(d *database, key string) error {
	return d.acquire(context.Background(), tx, key, time.Now().Add(tx.wait))
}

// Keys are the user's keys that begin with prefix, sorted.
func (tx *Tx) Keys(prefix string) (keys []string) {
	_ = tx.do(func(d *database) error {
		all := maps.Clone(d.user)
		for k, v := range tx.user {
			if delete(all, k); v != nil {
				all[k] = *v
			}
		}
		for k := range all {
			if strings.HasPrefix(k, prefix) {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		return nil
	})
	return keys
}

// Commit makes a transaction of the caller's own take effect. store.ErrLent in a handler.
func (tx *Tx) Commit() error {
	d := tx.s.db
	d.mu.Lock()
	defer d.mu.Unlock()
	if tx.lent {
		return store.ErrLent
	}
	return tx.commit()
}

// Rollback undoes a transaction of the caller's own. store.ErrLent in a handler.
func (tx *Tx) Rollback() error {
	d := tx.s.db
	d.mu.Lock()
	defer d.mu.Unlock()
	if tx.lent {
		return store.ErrLent
	}
	err := tx.over
	tx.end(ErrEnded)
	return err
}

// commit makes all that tx staged visible at once, or none of it; mu is held.
func (tx *Tx) commit() error {
	d := tx.s.db
	if err := tx.usable(); err != nil {
		tx.end(ErrEnded)
		return err
	}
	defer tx.end(ErrEnded)
	for _, p := range tx.shards {
		if err := d.outbox.Guard(p); err != nil {
			return err
		}
	}
	for k, v := range tx.user {
		if delete(d.user, k); v != nil {
			d.user[k] = *v
		}
	}
	tx.marks.Commit()
	tx.steps.Commit()
	tx.tracks.Commit()
	tx.sagas.Commit()
	maps.Copy(d.versions, tx.given)
	for _, p := range tx.shards {
		d.outbox.Report(p, d.now())
	}
	for _, change := range tx.changes {
		change(d.now())
	}
	if len(tx.rows) > 0 {
		d.outbox.Publish(tx.rows)
	}
	if len(tx.rows) > 0 || tx.sagas.Written() {
		for _, s := range append(tx.by, tx.s) {
			s.wake()
		}
	}
	return nil
}
