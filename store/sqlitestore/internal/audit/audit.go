// Package audit is what operators did, by whom and why.
package audit

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"fmt"
	"math"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

//go:embed sql/*.sql
var statements embed.FS

// Statements are the statements of an audit, by name.
func Statements() (map[string]string, error) { return sqlfile.Load(statements, "sql", "") }

// defaultLimit is how many a list has at most if it is not said.
const defaultLimit = 1000

// List lists what operators did.
func List(ctx context.Context, run *sqlexec.DB, q store.AuditQuery) ([]store.Audit, error) {
	limit := cmp.Or(q.Limit, defaultLimit)
	if q.Run != "" {
		return list(run.Query(ctx, "Audited", q.Run, q.After, limit))
	}
	return list(run.Query(ctx, "AuditedLast", cmp.Or(q.Before, math.MaxInt64), limit))
}

func list(rows *sql.Rows, err error) (out []store.Audit, _ error) {
	if err == nil {
		out, err = sqlexec.Collect(rows, func(scan func(...any) error) (a store.Audit, err error) {
			var at string
			err = scan(&a.Number, &at, &a.Author, &a.Reason, &a.Action, &a.Consumer, &a.Source, &a.ID, &a.Run)
			a.At = sqlexec.ReadTime(at)
			return a, err
		})
	}
	return out, sqlexec.Failed("read the audit", err)
}

// Note writes down what an operator does; nil: nothing.
func Note(ctx context.Context, x *sqlexec.Session, a *store.Audit) error {
	if a == nil {
		return nil
	}
	if _, err := x.Exec(ctx, "InsertAudit", a.Author, a.Reason, a.Action, a.Consumer, a.Source, a.ID,
		a.Run); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}
