// Package pgstore keeps outbox, marks, shards and entities in PostgreSQL 15 or newer: the store seam over a
// pgx pool (New) or database/sql (NewSQL).
//
// Every intake and every outflow is one pipeline: a message costs two round trips beside the handler's own, a
// duplicate two, in every exec mode of pgx. Nothing needs session state, so any pooler in transaction mode
// will do (below PgBouncer 1.21 use an exec mode without named statements). The tables come by Migrate;
// nothing is made or dropped at run time.
package pgstore

import (
	"embed"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
	"github.com/skald-go/skald/store/pgstore/internal/query"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
	"github.com/skald-go/skald/store/pgstore/internal/wal"
)

//go:embed sql/*.sql
var statements embed.FS

// Options of a store. The zero value works.
type Options struct {
	Schema string // where the tables are. Default "public"

	// Notify tells relays in other processes of each write, by a NOTIFY outside of your transaction, at most
	// 50 a second. They need a Listener. Without it a relay finds what others wrote by looking. Default off.
	Notify bool

	// Patience is how long the database may take to answer one round trip of Skald's own, up to 5 s for
	// rivals included. Lists, counts and retention have 60 times as long. Then the connection is closed, the
	// pool makes new ones, and the call fails as an outage. Contexts of handlers bound their own statements.
	// Default 15 s.
	Patience time.Duration
}

func (o *Options) patience() sqlexec.Patience {
	if o == nil || o.Patience <= 0 {
		return sqlexec.DefaultPatience
	}
	return sqlexec.Patience(o.Patience)
}

// Store is PostgreSQL through a pgx pool. It is safe for concurrent use. Close the pool yourself.
type Store struct {
	*core
	pool    *pgxpool.Pool
	waiting atomic.Int64 // Begins that wait for a connection
	hooked  bool         // the pool does something about each use of a connection
}

var (
	_ store.Driver[pgx.Tx] = (*Store)(nil)
)

// New returns a store in the database of pool. It sends no statement: Check sends the first one.
//
// Set connect_timeout in the URL of the pool to a few seconds. Without connect_timeout, a connection that pgx
// opens to a silent server uses a place of the pool for 2 minutes, even after the server recovers. An inbox,
// a relay and sagas log a warning for such a pool.
func New(pool *pgxpool.Pool, o *Options) *Store {
	s := &Store{core: newCore(sqlexec.OverPool(pool, o.patience()), o), pool: pool}
	if pool != nil {
		s.dials = pool
		c := pool.Config()
		//lint:ignore SA1019 a pool of the user's may still have it
		s.hooked = c.PrepareConn != nil || c.BeforeAcquire != nil || c.AfterRelease != nil
	}
	return s
}

// core is what both stores share: everything but the user's transaction.
type core struct {
	pg        *sqlexec.DB
	patience  sqlexec.Patience
	secret    atomic.Pointer[secret]
	outbox    *query.Outbox
	consumers *query.Consumers
	kept      *query.Kept
	marks     *query.Marks
	steps     *query.Steps
	entities  *query.Entities
	sagas     *query.Sagas
	steward   *admin.Steward
	recovery  *query.Recovery
	waker     *sqlexec.Waker
	dials     *pgxpool.Pool // nil: database/sql
	warned    atomic.Bool   // of the pool's connects
}

func newCore(r sqlexec.Runner, o *Options) *core {
	if o == nil {
		o = &Options{}
	}
	c := &core{patience: o.patience()}
	raw, err := texts()
	c.pg = sqlexec.New(r, o.Schema, raw, err)
	c.pg.Oldest, c.pg.Newest = oldest, admin.Newest(Migrations(), oldest)
	c.outbox = query.NewOutbox(c.pg)
	c.steward = admin.NewSteward(c.pg)
	c.waker = sqlexec.NewWake(c.pg, o.Notify)
	c.recovery = query.NewRecovery(c.pg, c.waker.Wake)
	c.kept = query.NewKept(c.pg)
	c.marks = query.NewMark(c.pg, c.kept)
	c.steps = query.NewStep(c.pg)
	c.entities = query.NewEntity(c.pg)
	c.sagas = query.NewSaga(c.pg, c.waker)
	c.consumers = query.NewConsumer(c.pg, c.recovery)
	return c
}

// texts returns all statements by name, with a placeholder for the schema.
func texts() (map[string]string, error) {
	raw, err := sqlfile.Load(statements, "sql", sqlexec.Placeholder)
	if err != nil {
		return nil, err
	}
	for _, load := range []func() (map[string]string, error){
		query.Statements, wal.Statements, admin.Statements,
	} {
		more, err := load()
		if err == nil {
			err = sqlexec.Merge(raw, more)
		}
		if err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// CheckSchema tells by a *NameError whether a schema cannot have that name.
func CheckSchema(name string) error { return sqlexec.Nameable("schema", name) }

// NameError says that a schema or role cannot have that name.
type NameError = sqlexec.NameError

// Code is the SQLSTATE of err, "" if it has none. PgBouncer has one for all that it refuses: of that it is
// the one that PostgreSQL would have.
func Code(err error) string { return sqlexec.SQLState(err) }

// Outage tells whether err, of this package or of pgx, is nobody's fault and worth the same try again: a
// server that is away, starts or stops, a lost connection, a deadlock, a serialisation failure, a timeout, a
// full disk.
func Outage(err error) bool { return sqlexec.Outage(err) }

func (c *core) Outage(err error) bool { return sqlexec.Outage(err) }

// Woken is closed at the next write.
func (c *core) Woken() <-chan struct{} { return c.waker.Woken() }
