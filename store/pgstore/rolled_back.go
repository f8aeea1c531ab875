package pgstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// splitNeeded splits the calls of an intake: those that are always needed, and those that are rarely needed.
// If the intake has settings, rare is empty. A call after the settings would run as the role of the handler,
// which may not read marks.
func splitNeeded(in store.Intake, calls []sqlexec.Call) (needed, rare []sqlexec.Call) {
	if len(in.Settings) > 0 {
		return calls, nil
	}
	needed = make([]sqlexec.Call, 0, len(calls))
	for _, c := range calls {
		if c.Need == nil {
			needed = append(needed, c)
		}
	}
	rare = make([]sqlexec.Call, 0, len(calls)-len(needed))
	for _, c := range calls {
		if c.Need != nil {
			rare = append(rare, c)
		}
	}
	return needed, rare
}

// readVerdicts reads the stored verdicts of messages whose marks exist already. If all marks of the unit
// exist, its messages are duplicates, and the inbox will probably roll back. So readVerdicts rolls back in
// the same round trip, and a duplicate costs two round trips in all.
func (u *unit) readVerdicts(ctx context.Context, conn *pgx.Conn, tx pgx.Tx, in store.Intake,
	later []sqlexec.Call) (pgx.Tx, error) {
	calls := slices.DeleteFunc(later, func(c sqlexec.Call) bool { return !c.Need() })
	if len(calls) == 0 {
		return tx, nil
	}
	marks := 0
	for _, c := range calls {
		if !c.Also {
			marks++
		}
	}
	if marks == len(in.Marks) {
		calls, tx = append(calls, sqlexec.Call{SQL: sqlexec.Rollback}), &over{Tx: endedTx(), u: u, in: in}
	}
	if err := sqlexec.Send(ctx, conn, calls); err != nil {
		return nil, err
	}
	return tx, nil
}

// over is the transaction of a unit that look already rolled back, because all its messages are duplicates.
// If the unit is used anyway, the first statement begins the transaction again with the same intake.
type over struct {
	pgx.Tx
	u  *unit
	in store.Intake
}

// rebegin begins the transaction a second time, at most once. It does not read the verdicts again.
func (o *over) rebegin(ctx context.Context) (pgx.Tx, error) {
	u := o.u
	if tx := u.handle().live(); u.hasEnded() || tx != pgx.Tx(o) {
		return tx, nil
	}
	var found store.Found
	calls, err := u.s.intake(o.in, &found)
	if err != nil {
		return nil, fmt.Errorf("begin again: %w", err)
	}
	tx, err := sqlexec.Open(ctx, u.conn, isoLevel(o.in.Isolation), u.s.bind(o.in, calls))
	if err == nil && (!slices.Equal(found.Locks, u.found.Locks) ||
		!slices.Equal(found.Sagas, u.found.Sagas)) {
		err = fmt.Errorf("an entity or a saga changed meanwhile: %w", store.ErrBusy)
	}
	if err != nil {
		_ = sqlexec.Undo(ctx, u.conn)
		return nil, fmt.Errorf("begin again: %w", u.s.pg.Beginning(err))
	}
	u.handle().swap(tx)
	return tx, nil
}

func (o *over) Conn() *pgx.Conn {
	if o.u.hasEnded() {
		return nil
	}
	return o.u.conn
}
