package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
	"github.com/skald-go/skald/store/pgstore/internal/ring"
)

// LeastSlots and MostSlots bound a ring.
const (
	LeastSlots = 4
	MostSlots  = 1000
)

const (
	lockTries    = 60 // for the lock on a table, a second from one to the next
	lockPause    = time.Second
	firstWait    = 200 * time.Millisecond
	patientTries = lockTries / 4 // then the wait is doubled: 200, 400, 800, 1,600 ms
)

// ResizeOptions say how many slots the ring of the outbox is to have.
type ResizeOptions struct {
	Schema string // where the tables are. Default "public"
	Outbox int    // of a day; rows can be kept two days less. 4 to 1,000; 0: as it is
}

// A BusyError says that a lock was not to be had: whoever works on goes first.
type BusyError struct {
	Table string
	Err   error // of the context, if that ended before all tries were made; or nil
}

func (e *BusyError) Unwrap() error { return e.Err }

func (e *BusyError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("store: waiting for %s, which open transactions held: %v: end the long ones, and run it again, with more time; it goes on where it was",
			e.Table, e.Err)
	}
	return fmt.Sprintf("store: %s was held by open transactions again and again: end the long ones, and run it again; it goes on where it was", e.Table)
}

// Resize changes the ring while everything works, in short transactions: it says what it did. It can be ended
// at any point and run again. For each lock it waits, gives way and tries again as Migrate does: for 200 ms
// at first.
func Resize(ctx context.Context, db Database, o *ResizeOptions) ([]string, error) {
	if o == nil {
		o = &ResizeOptions{}
	}
	if n := o.Outbox; n != 0 && (n < LeastSlots || n > MostSlots) {
		return nil, fmt.Errorf("resize: a ring has %d to %d slots, not %d", LeastSlots, MostSlots, n)
	}
	m, err := newMigrator(&MigrateOptions{Schema: o.Schema})
	if err != nil {
		return nil, fmt.Errorf("resize: %w", err)
	}
	r := &migrator{core: m.core, pause: m.pause, db: db}
	if o.Outbox > 0 {
		if err := r.resizeRows(ctx, o.Outbox); err != nil {
			return r.did, fmt.Errorf("resize: %w", r.explain(err))
		}
	}
	return r.did, nil
}

// step is one transaction under the lock of migrations, with the ring that is stored now.
func (m *migrator) step(ctx context.Context, do func(tx pgx.Tx, have ring.Rings) error) error {
	return pgx.BeginFunc(ctx, m.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, m.pg.SQL["LockMigrations"], m.pg.Schema); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		var text string
		if err := tx.QueryRow(ctx, m.pg.SQL["Ring"]).Scan(&text); err != nil {
			return fmt.Errorf("read ring: %w", err)
		}
		have, err := ring.Parse(text, ring.Default())
		if err != nil {
			return err
		}
		return do(tx, have)
	})
}

// patiently does a step that needs a lock on a table.
func (m *migrator) patiently(ctx context.Context, table string,
	do func(tx pgx.Tx, have ring.Rings) error) error {
	return again(ctx, table, m.pause, func(wait time.Duration) error {
		return m.step(ctx, func(tx pgx.Tx, have ring.Rings) error {
			if _, err := tx.Exec(ctx, m.pg.SQL["LockShort"], pgrun.Millis(wait)); err != nil {
				return err
			}
			return do(tx, have)
		})
	})
}

// lockWait is for how long a try waits for a lock. Those that work go first, and nobody is to wait behind us
// for long: so it is short at first. But a lock that others hand from one to the next is had only by who
// waits for as long as the one that holds it now is open; whoever comes then stands behind us.
func lockWait(try int) time.Duration { return firstWait << (try / patientTries) }

// again tries what did not get its lock again, with a wait that grows.
func again(ctx context.Context, table string, pause time.Duration, try func(wait time.Duration) error) error {
	for n := range lockTries {
		err := try(lockWait(n))
		code := pgrun.SQLState(err)
		ended := ctx.Err() != nil && (code == "57014" || errors.Is(err, ctx.Err()))
		switch {
		case ended && n > 0: // and the try before was in vain: a table is held
			return &BusyError{Table: table, Err: ctx.Err()}
		case code != "55P03" && code != "40P01":
			return err
		}
		select {
		case <-ctx.Done():
			return &BusyError{Table: table, Err: ctx.Err()}
		case <-time.After(pause):
		}
	}
	return &BusyError{Table: table}
}

func (m *migrator) clock(ctx context.Context, tx pgx.Tx) (ms int64, err error) {
	if err = tx.QueryRow(ctx, m.pg.SQL["Clock"]).Scan(&ms); err != nil {
		return 0, fmt.Errorf("read clock: %w", err)
	}
	return ms, nil
}

func (m *migrator) set(ctx context.Context, tx pgx.Tx, to ring.Rings) error {
	text, err := json.Marshal(to)
	if err == nil {
		_, err = tx.Exec(ctx, m.pg.SQL["StoreRing"], "outbox ring", string(text))
	}
	if err != nil {
		return fmt.Errorf("store ring: %w", err)
	}
	return nil
}

// makeLeaf makes a table like that of leaf 0, with its rights, and attaches it, unless it is there.
func (m *migrator) makeLeaf(ctx context.Context, tx pgx.Tx, n int) error {
	var there bool
	leaf := pgrun.RowLeaf(n)
	if err := tx.QueryRow(ctx, m.pg.SQL["HasLeaf"], m.pg.Prefix+leaf).Scan(&there); err != nil || there {
		return err
	}
	run := func(sql string) error {
		_, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	}
	text := m.pg.RowTexts(n)
	if err := run(text["NewRowLeaf"]); err != nil {
		return fmt.Errorf("make %s: %w", leaf, err)
	}
	rows, err := tx.Query(ctx, m.pg.SQL["Like"], m.pg.Prefix+pgrun.FirstRows, m.pg.Prefix+leaf)
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

// resizeRows: rows fall on the leaves that are there and on new ones; what is there stays until it is
// emptied.
func (m *migrator) resizeRows(ctx context.Context, slots int) error {
	for n := range slots {
		err := m.patiently(ctx, "skald_outbox", func(tx pgx.Tx, _ ring.Rings) error {
			return m.makeLeaf(ctx, tx, n)
		})
		if err != nil {
			return err
		}
	}
	return m.patiently(ctx, "skald_outbox", func(tx pgx.Tx, have ring.Rings) error {
		was := have.Slots()
		if was == slots {
			return nil
		}
		sql := strings.ReplaceAll(m.pg.SQL["RowSlots"], "/*slots*/10", fmt.Sprint(slots))
		if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("set default of slot: %w", err)
		}
		now, err := m.clock(ctx, tx)
		if err != nil {
			return err
		}
		if err := m.set(ctx, tx, append(have, ring.Ring{From: now, Slots: slots})); err != nil {
			return err
		}
		m.did = append(m.did, fmt.Sprintf("outbox ring: %d slots, was %d", slots, was))
		return nil
	})
}
