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

// Tx is a transaction. In addition to Skald's data, it reads and writes a small table of the user: keys and
// values. A Tx is for one goroutine at a time.
type Tx struct {
	s      *Store
	lent   bool
	wait   time.Duration // maximum wait for a lock
	handle time.Duration // maximum idle time; 0 means no limit
	used   time.Time
	began  time.Time

	over     error // the reason why the transaction ended; nil while it is open
	failed   error // the error that aborted the transaction
	locks    []lockID
	waitsFor *Tx
	waiters  int // number of transactions that wait for this one

	user    map[string]*string // a nil value is a deletion
	marks   view
	steps   stepView
	tracks  trackedView
	sagas   sagaView
	given   map[entity]int64
	rows    []outboxRow
	shards  []store.Progress
	admits  map[int64]bool        // Numbers of the quarantined messages that the transaction admits
	changes []func(now time.Time) // the other changes of the commit, in order
	by      []*Store              // other handles to wake at the commit
}

// begin begins a transaction. The caller must have locked mu of the database.
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

// idle returns the remaining idle time of tx; false means no limit.
func (tx *Tx) idle() (time.Duration, bool) {
	if tx.handle == 0 || tx.waitsFor != nil {
		return 0, false
	}
	return tx.handle - tx.s.db.now().Sub(tx.used), true
}

// usable returns an error if tx accepts no statements. It ends tx if tx was idle for too long.
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

// end ends tx and releases all its locks. Later statements of tx return the error reason. Changes that were
// not committed are lost.
func (tx *Tx) end(reason error) {
	if tx.over != nil {
		return
	}
	tx.over = reason
	delete(tx.s.open, tx)
	tx.s.db.release(tx)
}

// pass revokes tx from a function that has returned, and returns a new handle of the transaction for the next
// function. The caller must have locked mu of the database.
func (tx *Tx) pass() *Tx {
	next := *tx
	next.waiters, next.waitsFor = 0, nil
	for _, l := range tx.locks {
		tx.s.db.held[l] = &next
	}
	delete(tx.s.open, tx)
	tx.s.open[&next] = struct{}{}
	tx.over, tx.locks, tx.waitsFor = errReturned, nil, &next // waiters of tx now wait for next
	return &next
}

// run executes f as a statement. An error aborts the transaction.
func (tx *Tx) run(f func(d *database) error) error {
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
	_ = tx.run(func(d *database) error {
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

// Put writes a key of the user's table and locks it until the transaction ends. An error aborts the
// transaction. Put returns store.ErrBusy if another transaction had the key for too long.
func (tx *Tx) Put(key, value string) error {
	return tx.run(func(d *database) error {
		if err := tx.lock(d, key); err != nil {
			return err
		}
		tx.user[key] = &value
		return nil
	})
}

// Insert writes a new key, as Put does. If the key exists, Insert returns ErrExists and aborts the
// transaction.
func (tx *Tx) Insert(key, value string) error {
	return tx.run(func(d *database) error {
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

// Update locks a key, calls f with its value, and writes the result. For a missing key, f gets "" and false.
func (tx *Tx) Update(key string, f func(old string, ok bool) string) error {
	return tx.run(func(d *database) error {
		if err := tx.lock(d, key); err != nil {
			return err
		}
		v := f(tx.get(d, key))
		tx.user[key] = &v
		return nil
	})
}

// Delete deletes a key, if it exists.
func (tx *Tx) Delete(key string) error {
	return tx.run(func(d *database) error {
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

// Keys returns the user's keys that begin with prefix, sorted.
func (tx *Tx) Keys(prefix string) (keys []string) {
	_ = tx.run(func(d *database) error {
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

// Commit commits a transaction of the caller. In a handler it returns store.ErrLent.
func (tx *Tx) Commit() error {
	d := tx.s.db
	d.mu.Lock()
	defer d.mu.Unlock()
	if tx.lent {
		return store.ErrLent
	}
	return tx.commit()
}

// Rollback undoes a transaction of the caller. In a handler it returns store.ErrLent.
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

// commit makes all changes of tx visible, or none. The caller must have locked mu of the database.
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
	if len(tx.rows) > 0 || tx.sagas.HasWrites() {
		for _, s := range append(tx.by, tx.s) {
			s.wake()
		}
	}
	return nil
}
