// Package sqlitestore is the store in a SQLite file: the whole of Skald with nothing but Go. The driver is
// modernc.org/sqlite, which needs no C.
//
//	db, err := sqlitestore.Open("shop.db")
//	_, err = sqlitestore.Migrate(ctx, db, nil)   // or: skald migrate --store sqlite:shop.db
//	out := outbox.New(sqlitestore.New(db, nil), nil)
//
// A SQLite file has one writer at a time, and its commits are in the order of skald_outbox.seq: a tick is the
// largest seq, a window a range of them. Several processes may share a file; their transactions wait for each
// other, so a handler should be short. A process that is paused in the middle of one holds all others up
// until it wakes.
//
// Every writer of the file must go through SQLite and keep synchronous at FULL (its default): a message must
// be on the disk before a relay sees it.
package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store"
)

//go:embed sql/*.sql
var statements embed.FS

var (
	_ store.Driver[*sql.Tx] = (*Store)(nil)
	_ store.Unit[*sql.Tx]   = (*unit)(nil)
)

const (
	defaultWait   = 5 * time.Second
	defaultHandle = 60 * time.Second
	defaultTTL    = 3 * time.Second
)

// Options of a Store. The zero value works.
type Options struct {
	// Wait bounds the waiting for other writers, in this process and in others, where an Intake does not say:
	// then store.ErrBusy. Default 5 s.
	Wait time.Duration
}

// A Store is a handle on a file. It is safe for concurrent use.
type Store struct {
	db    *sql.DB
	wait  time.Duration
	turns turnstile // nil: db was not opened by Open
	waker *waker

	setUp sync.Mutex
	ready atomic.Pointer[prepared]
	lent  sync.Map // *sql.Tx → *unit
}

// String names it in a log.
func (*Store) String() string { return "SQLite" }

// prepared are the statements, by name.
type prepared struct {
	text  map[string]string
	stmts map[string]*sql.Stmt
}

// New is a store in the file of db, which should come from Open: else transactions of this process poll for
// their turn, and a handler's own Commit of the transaction that it was lent is only found afterwards.
func New(db *sql.DB, o *Options) *Store {
	if o == nil {
		o = &Options{}
	}
	s := &Store{db: db, wait: cmp.Or(o.Wait, defaultWait)}
	if f, ok := db.Driver().(*files); ok {
		s.turns, s.waker = f.turn, f.waker
	} else {
		s.waker = newWaker()
	}
	return s
}

// prepare makes the statements ready, once the tables are there.
func (s *Store) prepare(ctx context.Context) (*prepared, error) {
	if p := s.ready.Load(); p != nil {
		return p, nil
	}
	s.setUp.Lock()
	defer s.setUp.Unlock()
	if p := s.ready.Load(); p != nil {
		return p, nil
	}
	text, err := sqlfile.Load(statements, "sql", "")
	if err != nil {
		return nil, err
	}
	p := &prepared{text: text, stmts: map[string]*sql.Stmt{}}
	for name, q := range text {
		stmt, err := s.db.PrepareContext(ctx, q)
		if err != nil {
			p.close()
			if bad := s.Check(ctx, store.App); bad != nil {
				return nil, bad
			}
			return nil, fmt.Errorf("prepare %s: %w", name, err)
		}
		p.stmts[name] = stmt
	}
	s.ready.Store(p)
	return p, nil
}

func (p *prepared) close() {
	for _, stmt := range p.stmts {
		_ = stmt.Close() // there is nothing to be lost
	}
}

// Woken is closed when rows are next written through the same *sql.DB, by this Store or another.
func (s *Store) Woken() <-chan struct{} { return s.waker.woken() }

// A waker tells all who wait.
type waker struct {
	mu sync.Mutex
	ch chan struct{}
}

func newWaker() *waker { return &waker{ch: make(chan struct{})} }

func (w *waker) woken() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ch
}

func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.ch)
	w.ch = make(chan struct{})
}
