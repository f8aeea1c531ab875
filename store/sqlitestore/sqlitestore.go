// Package sqlitestore is the store in a SQLite file: the whole of Skald with nothing but Go. The driver is
// modernc.org/sqlite, which needs no C.
//
//	db, err := sqlitestore.Open("shop.db")
//	_, err = sqlitestore.Migrate(ctx, db, nil)   // or: skald migrate --store sqlite:shop.db
//	out := newOutbox(sqlitestore.New(db, nil), nil)
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
	"errors"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/admin"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

//go:embed sql/*.sql
var statements embed.FS

var (
	_ store.Driver[*sql.Tx] = (*Store)(nil)
	_ store.Unit[*sql.Tx]   = (*unit)(nil)
)

const (
	defaultWait = 5 * time.Second
	probeWait   = 100 * time.Millisecond
)

// Options of a Store. The zero value works.
type Options struct {
	// Wait bounds the waiting for other writers, in this process and in others, where an Intake does not say:
	// then store.ErrBusy. Default 5 s.
	Wait time.Duration
}

// Store is a handle on a file. It is safe for concurrent use.
type Store struct {
	run     *sqlexec.DB
	outbox  *outboxTable
	sagas   *sagaTable
	steward *admin.Steward
	lent    sync.Map // *sql.Tx → *unit
}

// String names it in a log.
func (*Store) String() string { return "SQLite" }

// New is a store in the file of db, which should come from Open: else transactions of this process poll for
// their turn, and a handler's own Commit of the transaction that it was lent is only found afterwards.
func New(db *sql.DB, o *Options) *Store {
	if o == nil {
		o = &Options{}
	}
	s := &Store{}
	s.run = sqlexec.New(db, cmp.Or(o.Wait, defaultWait), texts,
		func(ctx context.Context) error { return s.Check(ctx, store.App) })
	s.outbox, s.sagas, s.steward = newOutbox(s.run), newSaga(s.run), admin.NewSteward(s.run)
	return s
}

// texts returns the statements that a store prepares, by name.
func texts() (map[string]string, error) {
	all, err := sqlfile.Load(statements, "sql", "")
	if err != nil {
		return nil, err
	}
	upkeep, err := admin.Statements()
	if err != nil {
		return nil, err
	}
	return all, sqlexec.Merge(all, upkeep)
}

// Open opens the file at path, which it makes if it is not there, as Skald needs it: WAL, synchronous=FULL,
// foreign keys on, a busy timeout of 5 s, every transaction BEGIN IMMEDIATE. Transactions of this *sql.DB
// take turns, first come first served; reads outside a transaction do not wait for them. A connection in the
// middle of a transaction that SQLite rolled back of its own accord (a full disk, an interrupted statement)
// refuses further statements until that transaction is ended. Once another file stands at path, or none, each
// Begin and Commit answers a *store.MovedError: close the DB and open it again.
//
// It refuses SQLite before 3.51.3, which can corrupt a WAL file, and ":memory:", which each connection would
// have for itself.
func Open(path string) (*sql.DB, error) { return sqlexec.Open(path) }

// Backup copies the file at path to a new file at to, while services write: the copy holds one moment, all of
// it. The copy is checked and is on the disk before it gets its name, so a backup that was interrupted leaves
// to as it was, and a file to + ".part" that the next backup replaces. It fails if to is there, or if there
// is no file at path.
func Backup(ctx context.Context, path, to string) error { return admin.Take(ctx, path, to) }

// Probe reads the file, and takes its write lock unless another writer has it.
func (s *Store) Probe(ctx context.Context) error {
	x, err := s.run.Begin(ctx, probeWait, probeWait)
	switch {
	case err == nil:
		return x.Close()
	case !errors.Is(err, store.ErrBusy) && ctx.Err() == nil:
		return sqlexec.Failed("probe the file", err)
	}
	rows, err := s.run.Query(ctx, "ProbeRead")
	if err == nil {
		_, err = sqlexec.Collect(rows, func(scan func(...any) error) (n int, err error) {
			return n,
				scan(&n)
		})
	}
	return sqlexec.Failed("probe the file", err)
}

// Outage tells of a busy or locked file, a full disk, an I/O error, a transaction that was held for too long.
func (s *Store) Outage(err error) bool { return sqlexec.Outage(err) }

// Woken is closed when rows are next written through the same *sql.DB, by this Store or another.
func (s *Store) Woken() <-chan struct{} { return s.run.Woken() }
