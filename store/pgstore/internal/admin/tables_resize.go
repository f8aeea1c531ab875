package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// LeastSlots and MostSlots limit the number of slots in the ring of the outbox.
const (
	LeastSlots = 4
	MostSlots  = 1000
)

// Resize changes the number of slots of the outbox ring while the system runs, in short transactions. It
// returns a line for each change. You can stop it at any point and run it again. 0 slots means no change.
func Resize(ctx context.Context, db Database, pg *sqlexec.DB, slots int) ([]string, error) {
	if slots != 0 && (slots < LeastSlots || slots > MostSlots) {
		return nil, fmt.Errorf("resize: a ring has %d to %d slots, not %d", LeastSlots, MostSlots, slots)
	}
	if pg.Err != nil {
		return nil, fmt.Errorf("resize: %w", pg.Err)
	}
	r := &resizer{pg: pg, db: db}
	if slots > 0 {
		if err := r.resize(ctx, slots); err != nil {
			return r.did, fmt.Errorf("resize: %w", explain(pg, err))
		}
	}
	return r.did, nil
}

// resizer changes a ring in many transactions.
type resizer struct {
	pg  *sqlexec.DB
	db  Database
	did []string // a line for each change
}

// step runs the function change in one transaction, with the migration lock and the stored ring.
func (r *resizer) step(ctx context.Context, change func(tx pgx.Tx, have Rings) error) error {
	return bounded(ctx, r.db, r.pg, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, r.pg.SQL["LockMigrations"], r.pg.Schema); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		var text string
		if err := tx.QueryRow(ctx, r.pg.SQL["Ring"]).Scan(&text); err != nil {
			return fmt.Errorf("read ring: %w", err)
		}
		have, err := Parse(text, Default())
		if err != nil {
			return err
		}
		return change(tx, have)
	})
}

// stepWithLock runs the function change as step does. The function needs a lock of the table. stepWithLock
// retries until the function gets the lock.
func (r *resizer) stepWithLock(ctx context.Context, table string,
	change func(tx pgx.Tx, have Rings) error) error {
	return retryLocked(ctx, table, LockPause, func(wait time.Duration) error {
		return r.step(ctx, func(tx pgx.Tx, have Rings) error {
			if _, err := tx.Exec(ctx, r.pg.SQL["LockShort"], sqlexec.Millis(wait)); err != nil {
				return err
			}
			return change(tx, have)
		})
	})
}

func (r *resizer) clock(ctx context.Context, tx pgx.Tx) (ms int64, err error) {
	if err = tx.QueryRow(ctx, r.pg.SQL["Clock"]).Scan(&ms); err != nil {
		return 0, fmt.Errorf("read clock: %w", err)
	}
	return ms, nil
}

func (r *resizer) set(ctx context.Context, tx pgx.Tx, to Rings) error {
	text, err := json.Marshal(to)
	if err == nil {
		_, err = tx.Exec(ctx, r.pg.SQL["StoreRing"], "outbox ring", string(text))
	}
	if err != nil {
		return fmt.Errorf("store ring: %w", err)
	}
	return nil
}

// makeLeaf creates the leaf n of the outbox and attaches it, unless it exists. It copies columns, owner and
// rights from the first leaf.
func (r *resizer) makeLeaf(ctx context.Context, tx pgx.Tx, n int) error {
	var there bool
	leaf := sqlexec.RowLeaf(n)
	if err := tx.QueryRow(ctx, r.pg.SQL["HasLeaf"], r.pg.Prefix+leaf).Scan(&there); err != nil || there {
		return err
	}
	run := func(sql string) error {
		_, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	}
	text := r.pg.RowTexts(n)
	if err := run(text["NewRowLeaf"]); err != nil {
		return fmt.Errorf("make %s: %w", leaf, err)
	}
	rows, err := tx.Query(ctx, r.pg.SQL["Like"], r.pg.Prefix+sqlexec.FirstRows, r.pg.Prefix+leaf)
	if err != nil {
		return fmt.Errorf("make %s: %w", leaf, err)
	}
	like, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("make %s: %w", leaf, err)
	}
	for _, sql := range append(like, text["AttachRowLeaf"]) {
		if err := run(sql); err != nil {
			return fmt.Errorf("make %s: %w", leaf, err)
		}
	}
	return nil
}

// resize creates the missing leaves and then stores the new ring. Existing rows stay in their leaves until
// retention empties these leaves.
func (r *resizer) resize(ctx context.Context, slots int) error {
	for n := range slots {
		err := r.stepWithLock(ctx, "skald_outbox", func(tx pgx.Tx, _ Rings) error {
			return r.makeLeaf(ctx, tx, n)
		})
		if err != nil {
			return err
		}
	}
	return r.stepWithLock(ctx, "skald_outbox", func(tx pgx.Tx, have Rings) error {
		was := have.Slots()
		if was == slots {
			return nil
		}
		sql := strings.ReplaceAll(r.pg.SQL["RowSlots"], "/*slots*/10", fmt.Sprint(slots))
		if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("set default of slot: %w", err)
		}
		now, err := r.clock(ctx, tx)
		if err != nil {
			return err
		}
		if err := r.set(ctx, tx, append(have, leafRing{From: now, Slots: slots})); err != nil {
			return err
		}
		r.did = append(r.did, fmt.Sprintf("outbox ring: %d slots, was %d", slots, was))
		return nil
	})
}
