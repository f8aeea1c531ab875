// Package sqlitestore is the driver for SQLite files. It needs no C compiler, because it uses
// modernc.org/sqlite.
//
//	db, err := sqlitestore.Open("shop.db")
//	_, err = sqlitestore.Migrate(ctx, db, nil)   // or: skald migrate --store sqlite:shop.db
//	out := outbox.New(sqlitestore.New(db, nil), nil)
//
// A SQLite file has one writer at a time. Several processes may share a file, but their transactions wait for
// each other, so handlers should be short. A process that is paused during a transaction blocks all other
// writers until it continues. Commits are in the order of skald_outbox.seq, so a position of a relay is a
// seq.
//
// Every writer of the file must use synchronous=FULL, the default of SQLite, because a message must be on the
// disk before a relay reads it.
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
	// that time the transaction returns store.ErrBusy. Default 5 s.
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

// New returns a store in the file of db. db should come from Open. Otherwise transactions of this process
// poll for the write lock, and the store detects a Commit by a handler only afterwards.
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
// keys, a busy timeout of 5 s, and BEGIN IMMEDIATE for every transaction. Transactions of this *sql.DB run
// one at a time, in order of arrival. Reads outside of transactions do not wait.
//
// SQLite itself rolls back a transaction after a full disk or an interrupted statement. The connection then
// refuses statements until the caller ends the transaction. If path later leads to another file or to no
// file, each Begin and Commit returns a *store.MovedError. Then close the DB and open it again.
//
// Open returns an error for SQLite before 3.51.3, because it can corrupt a WAL file. It also returns an error
// for ":memory:", because each connection would have its own database.
func Open(path string) (*sql.DB, error) { return sqlexec.Open(path) }

// Backup copies the file at path to a new file at newPath, while services write. The copy is one snapshot.
// Backup checks the copy and flushes it to the disk before it gives the copy its final name. An interrupted
// backup leaves a file with the suffix ".part", and the next backup replaces that file. Backup returns an
// error if the new file exists already, or if there is no file at path.
func Backup(ctx context.Context, path, newPath string) error { return admin.Take(ctx, path, newPath) }

// Probe checks that the file accepts writes. It reads the file and takes its write lock. If another writer
// has the lock, reading is enough.
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

// Outage reports whether err is temporary, so that the caller should retry. Examples are a busy or locked
// file, a full disk, an I/O error, and a transaction that exceeded Intake.Handle.
func (s *Store) Outage(err error) bool { return sqlexec.Outage(err) }

// Woken returns a channel that closes at the next write through the same *sql.DB, by this Store or another
// one.
func (s *Store) Woken() <-chan struct{} { return s.run.Woken() }
