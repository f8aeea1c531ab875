package sqlitestore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// verdictsOf returns the verdicts of messages, from one snapshot.
func verdictsOf(ctx context.Context, run *sqlexec.DB, consumer string, ids []store.Identity) ([]store.Verdict,
	error) {
	out := make([]store.Verdict, len(ids))
	p, err := run.Prepare(ctx)
	if err != nil {
		return nil, sqlexec.Failed("seen", err)
	}
	tx, err := run.SQL.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, sqlexec.Failed("seen", err)
	}
	defer func() { _ = tx.Rollback() }()
	find := p.In(ctx, tx, "SeenMark")
	for i, id := range ids {
		err := verdict(find.QueryRowContext(sqlexec.Quiet(ctx), consumer, id.Source, id.ID,
			timeInID(id.ID) != nil),
			&out[i])
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, sqlexec.Failed("seen", err)
		}
	}
	return out, nil
}
