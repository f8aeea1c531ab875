// This file has the audit log of operators' actions and their reasons.

package query

import (
	"cmp"
	"context"
	"math"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Note returns the call that records an action of an operator.
func Note(pg *sqlexec.DB, a *store.Audit) sqlexec.Call {
	id := sqlexec.Identity(a.Consumer, a.Identity)
	return pg.Call("InsertAudit",
		append(append([]any{sqlexec.StorableText(a.Author), sqlexec.StorableText(a.Reason),
			sqlexec.StorableText(a.Action)},
			id...), sqlexec.StorableText(a.Run))...)
}

// List lists the actions of operators: those of q.Run in order, or otherwise the latest before q.Before.
func List(ctx context.Context, pg *sqlexec.DB, q store.AuditQuery, limit int) (out []store.Audit, err error) {
	read := pg.Call("AuditedLast", cmp.Or(q.Before, math.MaxInt64), int32(limit))
	if q.Run != "" {
		read = pg.Call("Audited", sqlexec.StorableText(q.Run), q.After, int32(limit))
	}
	read.Scan = func(row sqlexec.Scanner) error {
		var a store.Audit
		err := row.Scan(&a.Number, &a.At, &a.Author, &a.Reason, &a.Action, &a.Consumer, &a.Source, &a.ID,
			&a.Run, &a.Login)
		sqlexec.Handles(&a.Consumer, &a.Source, &a.ID)
		a.At = a.At.UTC()
		out = append(out, a)
		return err
	}
	return out, pg.Short(ctx, "read the audit", read)
}
