// Package sqlexec runs statements on a SQLite file. Statements outside of transactions do not wait.
// Transactions of one process run one at a time, in order of arrival. The package also opens the file and
// classifies errors of SQLite.
package sqlexec

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald/internal/sqlfile"
)

//go:embed sql/*.sql
var statements embed.FS

// texts returns the statements of this package, by name.
func texts() (map[string]string, error) { return sqlfile.Load(statements, "sql", "") }

// Merge adds the statements in others to texts. It returns an error if a name exists already.
func Merge(texts, others map[string]string) error {
	for name, text := range others {
		if texts[name] != "" {
			return fmt.Errorf("statement %s is defined twice", name)
		}
		texts[name] = text
	}
	return nil
}

// DefaultHandle is the default maximum time of a transaction.
const DefaultHandle = 60 * time.Second

// DB runs the statements of a store on one file. It is safe for concurrent use.
type DB struct {
	*waker
	SQL  *sql.DB
	Wait time.Duration // the maximum wait for other writers

	texts   func() (map[string]string, error)
	lacking func(context.Context) error
	turns   turnstile // nil if Open did not open SQL
	setUp   sync.Mutex
	ready   atomic.Pointer[Prepared]
}

// New returns a DB that runs the statements of texts on the file of db. The argument db should come from
// Open. If Prepare fails, it calls findReason. The function findReason returns the reason, such as missing
// tables, or nil if it finds no reason.
func New(db *sql.DB, wait time.Duration, texts func() (map[string]string, error),
	findReason func(context.Context) error) *DB {
	d := &DB{SQL: db, Wait: wait, texts: texts, lacking: findReason}
	if f, ok := db.Driver().(*files); ok {
		d.turns, d.waker = f.turn, f.waker
	} else {
		d.waker = newWaker()
	}
	return d
}

// Prepared has the prepared statements, by name.
type Prepared struct {
	text  map[string]string
	stmts map[string]*sql.Stmt
}

// Prepare prepares all statements at the first call. The tables must exist.
func (d *DB) Prepare(ctx context.Context) (*Prepared, error) {
	if p := d.ready.Load(); p != nil {
		return p, nil
	}
	d.setUp.Lock()
	defer d.setUp.Unlock()
	if p := d.ready.Load(); p != nil {
		return p, nil
	}
	text, err := d.texts()
	if err != nil {
		return nil, err
	}
	p := &Prepared{text: text, stmts: map[string]*sql.Stmt{}}
	for name, q := range text {
		stmt, err := d.SQL.PrepareContext(ctx, q)
		if err != nil {
			p.close()
			if bad := d.lacking(ctx); bad != nil {
				return nil, bad
			}
			return nil, fmt.Errorf("prepare %s: %w", name, err)
		}
		p.stmts[name] = stmt
	}
	d.ready.Store(p)
	return p, nil
}

func (p *Prepared) close() {
	for _, stmt := range p.stmts {
		_ = stmt.Close()
	}
}

// Text returns the text of a statement.
func (p *Prepared) Text(name string) string { return p.text[name] }

// Row runs a statement outside of any transaction, for one row.
func (p *Prepared) Row(ctx context.Context, name string, args ...any) *sql.Row {
	return p.stmts[name].QueryRowContext(ctx, args...)
}

// Rows runs a statement outside of any transaction. It reads committed rows and does not wait.
func (p *Prepared) Rows(ctx context.Context, name string, args ...any) (*sql.Rows, error) {
	return p.stmts[name].QueryContext(ctx, args...)
}

// In returns the prepared statement with this name, for use in tx.
func (p *Prepared) In(ctx context.Context, tx *sql.Tx, name string) *sql.Stmt {
	return tx.StmtContext(ctx, p.stmts[name])
}
