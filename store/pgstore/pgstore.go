// Package pgstore is the driver for PostgreSQL 15 or newer, over a pgx pool (New) or database/sql (NewSQL).
//
// The begin and the commit of a message's transaction are one pipeline each. So a message costs two round
// trips in addition to the handler's own statements, in every exec mode of pgx. A duplicate also costs two.
// Skald needs no session state, so a pooler in transaction mode works. With PgBouncer before 1.21, use an
// exec mode without named statements. Migrate creates the tables; at run time Skald creates and drops
// nothing.
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

	// Notify sends a NOTIFY after writes, so that relays in other processes publish without delay. The NOTIFY
	// is outside of your transaction, at most 50 times a second. These relays need a Listener. Without
	// Notify, relays find the rows of other processes by polling. Default off.
	Notify bool

	// Patience limits one round trip of Skald's own statements, including up to 5 s of waiting for locks.
	// Lists, counts and retention may take 60 times as long. After the limit, Skald closes the connection,
	// the pool replaces its other connections, and the call returns an error that Outage reports. Only the
	// context limits a statement of a handler. Default 15 s.
	Patience time.Duration
}

func (o *Options) patience() sqlexec.Patience {
	if o == nil || o.Patience <= 0 {
		return sqlexec.DefaultPatience
	}
	return sqlexec.Patience(o.Patience)
}

// Store is a driver over a pgx pool. It is safe for concurrent use. Close the pool yourself.
type Store struct {
	*core
	pool    *pgxpool.Pool
	waiting atomic.Int64 // calls of Begin that wait for a connection
	hooked  bool         // the pool has hooks that run at each use of a connection
}

var (
	_ store.Driver[pgx.Tx] = (*Store)(nil)
)

// New returns a store in the database of pool. It sends no statement: Check sends the first one.
//
// Set connect_timeout in the URL of the pool to a few seconds. Without it, a connection attempt to a server
// that does not answer uses a place of the pool for 2 minutes, even after the server recovers. The inbox, the
// relay and the engine log a warning for such a pool.
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

// core is the part that Store and SQLStore share: everything except the transaction of the user.
type core struct {
	pg        *sqlexec.DB
	patience  sqlexec.Patience
	secret    atomic.Pointer[secret]
	outbox    *query.Outbox
	consumers *query.Consumers
	kept      *query.Parked
	marks     *query.Marks
	steps     *query.Steps
	entities  *query.Entities
	sagas     *query.Sagas
	steward   *admin.Steward
	recovery  *query.Recovery
	waker     *sqlexec.Waker
	dials     *pgxpool.Pool // nil for database/sql
	warned    atomic.Bool   // the log has the warning about the pool's connect timeout
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
	c.kept = query.NewParked(c.pg)
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

// CheckSchema returns a *NameError if a schema cannot have that name.
func CheckSchema(name string) error { return sqlexec.Nameable("schema", name) }

// NameError reports a name that a schema or role cannot have.
type NameError = sqlexec.NameError

// Code returns the SQLSTATE of err; "" if err has none. PgBouncer uses one code for all its errors. For
// these, Code returns the code that PostgreSQL would use.
func Code(err error) string { return sqlexec.SQLState(err) }

// Outage reports whether err, of this package or of pgx, is temporary, so that the caller should retry.
// Examples are a server that is unreachable, starts or stops, a lost connection, a deadlock, a serialization
// failure, a timeout and a full disk.
func Outage(err error) bool { return sqlexec.Outage(err) }

// Outage implements store.Common: see the function Outage.
func (c *core) Outage(err error) bool { return sqlexec.Outage(err) }

// Woken returns a channel that the store closes at the next write to the outbox or to a saga.
func (c *core) Woken() <-chan struct{} { return c.waker.Woken() }
