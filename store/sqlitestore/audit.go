// This file has the audit log of operators' actions and their reasons.

package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// auditDefaultLimit is the number of entries if the query sets no limit.
const auditDefaultLimit = 1000

// list lists the actions of operators.
func list(ctx context.Context, run *sqlexec.DB, q store.AuditQuery) ([]store.Audit, error) {
	limit := cmp.Or(q.Limit, auditDefaultLimit)
	if q.Run != "" {
		return auditList(run.Query(ctx, "Audited", q.Run, q.After, limit))
	}
	return auditList(run.Query(ctx, "AuditedLast", cmp.Or(q.Before, math.MaxInt64), limit))
}

func auditList(rows *sql.Rows, err error) (out []store.Audit, _ error) {
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

// note records an action of an operator. It does nothing if a is nil.
func note(ctx context.Context, x *sqlexec.Session, a *store.Audit) error {
	if a == nil {
		return nil
	}
	if _, err := x.Exec(ctx, "InsertAudit", a.Author, a.Reason, a.Action, a.Consumer, a.Source, a.ID,
		a.Run); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}
