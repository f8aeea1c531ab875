// Package pgstore keeps outbox, marks, shards and entities in PostgreSQL 15 or newer: the store seam over a
// pgx pool (New) or database/sql (NewSQL).
//
// Every intake and every outflow is one pipeline: a message costs two round trips beside the handler's own, a
// duplicate two, in every exec mode of pgx. Nothing needs session state, so any pooler in transaction mode
// will do (below PgBouncer 1.21 use an exec mode without named statements). The tables come by Migrate;
// nothing is made or dropped at run time.
package pgstore

import (
	"crypto/rand"
	"embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store"
)

//go:embed sql/*.sql
var statements embed.FS

const (
	defaultWait   = 5 * time.Second
	defaultHandle = 60 * time.Second
)

// Options of a store. The zero value works.
type Options struct {
	Schema string // where the tables are. Default "public"

	// Notify tells relays in other processes of each write, by a NOTIFY outside of your transaction, at most
	// 50 a second. They need a Listener. Without it a relay finds what others wrote by looking. Default off.
	Notify bool
}

// A Store is PostgreSQL through a pgx pool. It is safe for concurrent use. Close the pool yourself.
type Store struct {
	*core
	pool    *pgxpool.Pool
	waiting atomic.Int64 // Begins that wait for a connection
	hooked  bool         // the pool does something about each use of a connection
}

var (
	_ store.Driver[pgx.Tx] = (*Store)(nil)
)

// New is a store in the database of pool. It asks nothing of the database yet: Check does.
func New(pool *pgxpool.Pool, o *Options) *Store {
	s := &Store{core: newCore(poolRunner{pool}, o), pool: pool}
	if pool != nil {
		c := pool.Config()
		//lint:ignore SA1019 a pool of the user's may still have it
		s.hooked = c.PrepareConn != nil || c.BeforeAcquire != nil || c.AfterRelease != nil
	}
	return s
}

// core is what both stores share: everything but the user's transaction.
type core struct {
	runner runner
	schema string
	prefix string            // of each table: the quoted schema and a dot
	none   string            // stands for NULL in an array
	raw    map[string]string // the statements, with a placeholder for the schema
	sql    map[string]string // and with the schema
	secret atomic.Pointer[secret]
	err    error // of New, answered by every call
	bases  bases
	place  place
	notifier
	waker
}

func newCore(r runner, o *Options) *core {
	if o == nil {
		o = &Options{}
	}
	c := &core{runner: r, schema: o.Schema, none: rand.Text()}
	if c.schema == "" {
		c.schema = "public"
	}
	prefix, err := schemaPrefix(c.schema)
	if err == nil {
		c.prefix = prefix
		c.raw, err = sqlfile.Load(statements, "sql", placeholder)
	}
	if err != nil {
		c.err = fmt.Errorf("open store: %w", err)
		return c
	}
	c.pulls()
	c.choices()
	c.inserts()
	c.lists()
	c.sagas()
	c.sql = map[string]string{}
	for name, text := range c.raw {
		c.sql[name] = qualified(text, prefix)
	}
	if o.Notify {
		c.notifier.send = c.notify
	}
	return c
}

const placeholder = "/*schema*/" // before each table in a .sql file

// qualified puts prefix before each table: last of all, since the schema may be named like anything in the
// text.
func qualified(text, prefix string) string {
	return strings.NewReplacer("'"+placeholder, "'"+strings.ReplaceAll(prefix, "'", "''"), placeholder, prefix).Replace(text)
}

// pulls makes the forms of the statements that read a page.
func (c *core) pulls() {
	for name, bits := range map[string]string{"Pull": "$7", "PullOn": "$5"} {
		text := strings.NewReplacer("/*columns*/", rowColumns, "/*raw*/", rawColumns, "/*plain*/",
			plainColumns, "/*size*/", rawSize, "/*upto*/", upto).Replace(c.raw[name])
		text = bounded(text)
		c.raw[name] = strings.ReplaceAll(text, "/*filter*/", "")
		c.raw[name+"Some"] = strings.ReplaceAll(text, "/*filter*/", strings.ReplaceAll(bucketFilter, "$bits", bits))
	}
	c.raw["Retry"], c.raw["Claim"] = bounded(c.raw["Retry"]), bounded(c.raw["Claim"])
	c.raw["WalkHere"] = strings.ReplaceAll(c.raw["Walk"], "/*here*/", placeholder+"skald_check_identity($1::text), ")
	behind, arrivals := strings.TrimSuffix(c.raw["After"], ";"), strings.TrimSuffix(c.raw["ArrivalAfter"], ";")
	c.raw["GuardNumbers"] = "SELECT " + placeholder + "skald_require((" + behind + ") = '', 'the numbers')"
	c.raw["GuardBehind"] = "SELECT " + placeholder + "skald_require((" + behind + ") <> '' OR (" + arrivals + ") <> '', 'the recovery')"
	for _, name := range []string{"SettlePage", "DeferUnread"} {
		c.raw[name] = strings.ReplaceAll(c.raw[name], "/*bucket*/", bucketOf)
	}
}

// firstRows is the first leaf of the outbox. Statements name a leaf: one through the parent would lock all
// leaves until COMMIT.
const firstRows = "skald_outbox_0"

// rowTexts are the statements that name a leaf of the outbox, for the leaf n.
func (c *core) rowTexts(n int) map[string]string {
	out := map[string]string{}
	for name, text := range c.raw {
		if strings.Contains(text, firstRows) {
			text = strings.ReplaceAll(strings.ReplaceAll(text, firstRows, rowLeaf(n)), "/*slot*/0", strconv.Itoa(n))
			out[name] = qualified(text, c.prefix)
		}
	}
	return out
}

// schemaPrefix is what stands before each table: the quoted schema and a dot.
func schemaPrefix(schema string) (string, error) {
	return pgx.Identifier{schema}.Sanitize() + ".", nameable("schema", schema)
}

// CheckSchema tells by a *NameError whether a schema cannot have that name.
func CheckSchema(name string) error { return nameable("schema", name) }

// nameable tells whether a schema or role can have that name. A longer one PostgreSQL cuts without a word;
// with two $ in it it could end the body of a function or of a DO.
func nameable(what, name string) error {
	if name == "" || len(name) > 63 || !storable(name) || strings.Count(name, "$") > 1 {
		return &NameError{What: what, Name: name}
	}
	return nil
}

// A NameError says that a schema or role cannot have that name.
type NameError struct{ What, Name string }

func (e *NameError) Error() string {
	return fmt.Sprintf("store: the %s %q cannot be: its name is 1 to 63 bytes of text with one $ at most", e.What, e.Name)
}

// shellWord is s as a word of a command line.
func shellWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// waker knows of writes in this process.
type waker struct {
	mu sync.Mutex
	ch chan struct{} // nil: nobody asks
}

// Woken is closed at the next write.
func (w *waker) Woken() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch == nil {
		w.ch = make(chan struct{})
	}
	return w.ch
}

func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch != nil {
		close(w.ch)
		w.ch = nil
	}
}
