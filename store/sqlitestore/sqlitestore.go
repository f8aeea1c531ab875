// Package sqlitestore is the driver for SQLite files. It needs only Go, because its SQLite is
// modernc.org/sqlite, which has no C code.
//
//	db, err := sqlitestore.Open("shop.db")
//	_, err = sqlitestore.Migrate(ctx, db, nil)   // or: skald migrate --store sqlite:shop.db
//	out := outbox.New(sqlitestore.New(db, nil), nil)
//
// A SQLite file has one writer at a time, and commits are in the order of skald_outbox.seq. So a tick is
// the largest seq, and a window is a range of seqs. Several processes may share a file. Their transactions
// wait for each other, so handlers should be short. A process that is paused during a transaction blocks
// all others until it continues.
//
// Every writer of the file must use SQLite with synchronous at FULL, its default, because a message must be
// on the disk before a relay reads it.
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
	// Wait limits the wait for other writers, in this process and in others, if an Intake has no Wait. After
	// that time the result is store.ErrBusy. Default 5 s.
	Wait time.Duration
}

// Store is a driver for one file. It is safe for concurrent use.
type Store struct {
	run     *sqlexec.DB
	outbox  *outboxTable
	sagas   *sagaTable
	steward *admin.Steward
	lent    sync.Map // *sql.Tx → *unit
}

// String returns "SQLite".
func (*Store) String() string { return "SQLite" }

// New returns a store in the file of db, which should come from Open. Otherwise transactions of this
// process poll for the write lock, and a Commit by a handler is only detected afterwards.
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

// Open opens the file at path, and creates it if it does not exist. It sets WAL, synchronous=FULL, foreign
// keys, a busy timeout of 5 s, and BEGIN IMMEDIATE for every transaction. Transactions of this *sql.DB take
// turns in order of arrival; reads outside of transactions do not wait. SQLite itself rolls a transaction
// back after a full disk or an interrupted statement. The connection then refuses statements until the caller
// ends the transaction. If path later leads to another file or to no file, each Begin and Commit returns a
// *store.MovedError. Then close the DB and open it again.
//
// Open returns an error for SQLite before 3.51.3, which can corrupt a WAL file, and for ":memory:", which
// would be a separate database for each connection.
func Open(path string) (*sql.DB, error) { return sqlexec.Open(path) }

// Backup copies the file at path to a new file at to, while services write. The copy is one snapshot. The
// copy is checked and flushed to the disk before it gets its final name. An interrupted backup leaves a file
// with the suffix ".part", which the next backup replaces. Backup returns an error if the new file exists
// already, or if there is no file at path.
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

// Outage returns true for a busy or locked file, a full disk, an I/O error, and a transaction that was held
// for too long.
func (s *Store) Outage(err error) bool { return sqlexec.Outage(err) }

// Woken returns a channel that is closed at the next write through the same *sql.DB, by this Store or
// another.
func (s *Store) Woken() <-chan struct{} { return s.run.Woken() }
