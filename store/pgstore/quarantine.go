package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/held"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

// keepApart are the calls for what e does with answers, reservations and the quarantine.
func (c *core) keepApart(e *store.Effect) ([]pgrun.Call, error) {
	calls := c.guardReservation(e.Reservation)
	if e.Answer != nil {
		answer, err := c.answerMark(e.Answer)
		if err != nil {
			return nil, err
		}
		calls = append(calls, answer...)
	}
	if q := e.Quarantine; q != nil {
		text, err := held.Bare(&q.Message)
		if err != nil {
			return nil, err
		}
		calls = append(calls, c.pg.Call("Quarantine",
			append(apartArgs(q), int16(q.Why), column.Clip(column.Legible(q.Message.Topic)),
				column.Clip(column.Legible(q.Message.Type)), text, q.Message.Data)...))
	}
	if q := e.Admitted; q != nil {
		calls = append(calls, c.pg.Call("TakeAdmitted", apartArgs(q)...))
	}
	if a := e.Admit; a != nil {
		calls = append(calls, c.pg.Call("Admit", a.Number, column.Legible(a.By), column.Legible(a.Reason)))
	}
	return calls, nil
}

// writing are the calls of what an effect in a transaction of the caller's holds beside rows.
func (c *core) writing(e *store.Effect) ([]pgrun.Call, error) {
	calls, err := c.keepApart(e)
	if err != nil {
		return nil, err
	}
	moves, err := c.sagas.Move(e.Saga)
	return append(calls, moves...), err
}

func apartArgs(q *store.Quarantined) []any {
	return []any{column.Name(q.Consumer), column.Name(q.Source), column.Name(q.ID), q.Fingerprint}
}

// Secret is the key of this database's fingerprints.
func (c *core) Secret(ctx context.Context) ([]byte, error) {
	if c.pg.Err != nil {
		return nil, c.pg.Err
	}
	if s := c.secret.Load(); s != nil && time.Since(s.read) < secretFor {
		return s.key, nil
	}
	var text string
	if err := c.pg.Short(ctx, "read key", c.pg.Call("Secret").Into(&text)); err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) < 16 {
		return nil,
			errors.Join(errors.New("read key: skald_setting has no 'fingerprint key': run: skald migrate"),
				err)
	}
	c.secret.Store(&secret{key, time.Now()})
	return key, nil
}

// A secret is remembered for a while, for calls that ask for it each time.
type secret struct {
	key  []byte
	read time.Time
}

const secretFor = 30 * time.Second

// quarantined lists messages in quarantine.
func (c *core) quarantined(ctx context.Context, q store.Query) ([]store.Quarantined, error) {
	var out []store.Quarantined
	limit := int32(min(cmp.Or(q.Limit, defaultLimit), defaultLimit))
	list := c.pg.Call("Quarantined", q.After, column.Name(q.Consumer), column.Name(q.ID),
		column.Clip(column.Legible(q.Topic)), column.Clip(column.Legible(q.Type)), int16(q.Why), q.Taken,
		q.Admitted, limit, q.Bare)
	if waiting := (store.Query{Consumer: q.Consumer, Admitted: true, After: q.After,
		Limit: q.Limit}); q == waiting && q.Consumer != "" {
		// by an index of its own: consumers ask for it all the time
		list = c.pg.Call("Admitted", q.After, column.Name(q.Consumer), limit)
	}
	list.Scan = func(row pgrun.Scanner) error {
		one, err := quarantined(row)
		if err == nil {
			out = append(out, one)
		}
		return err
	}
	return out, c.pg.Short(ctx, "list quarantine", list)
}

func quarantined(row pgrun.Scanner) (one store.Quarantined, err error) {
	var text string
	var data []byte
	var admitted, taken *time.Time
	err = row.Scan(&one.Number, &one.Consumer, &one.Source, &one.ID, &one.Fingerprint, &one.Why, &text,
		&one.At, &admitted, &one.By, &one.Reason, &taken,
		&data, &one.Bytes)
	if err != nil {
		return one, err
	}
	column.Handles(&one.Consumer, &one.Source, &one.ID)
	one.At, one.Admitted, one.Taken = one.At.UTC(), column.OrZero(admitted), column.OrZero(taken)
	one.Message, err = held.Decode(text)
	one.Message.Data = data
	return one, err
}

// entering are the calls of an intake in a transaction of the caller's own.
func (c *core) entering(in store.Intake, found *store.Found) ([]pgrun.Call, error) {
	in.Isolation = store.Serializable // of the caller's transaction nothing is known
	calls, err := c.intake(in, found)
	for i := range calls {
		calls[i].With = ""
	}
	return calls, err
}

// Enter takes in within a transaction of the caller's own: one round trip, two where a mark is there.
func (s *Store) Enter(ctx context.Context, tx pgx.Tx, in store.Intake) (found store.Found, err error) {
	calls, err := s.entering(in, &found)
	if err != nil {
		return found, fmt.Errorf("enter: %w", err)
	}
	now, later := apart(in, calls)
	if err := pgrun.SendIn(ctx, tx, now); err != nil {
		return found, fmt.Errorf("enter: %w", s.pg.Beginning(err))
	}
	if err := pgrun.SendIn(ctx, tx, wantedOf(later)); err != nil {
		return found, fmt.Errorf("enter: %w", s.pg.Beginning(err))
	}
	return found, nil
}

func wantedOf(calls []pgrun.Call) (out []pgrun.Call) {
	for _, c := range calls {
		if c.Need() {
			out = append(out, c)
		}
	}
	return out
}

// Enter takes in within a transaction of the caller's own, statement by statement.
func (s *SQLStore) Enter(ctx context.Context, tx *sql.Tx, in store.Intake) (found store.Found, err error) {
	calls, err := s.entering(in, &found)
	if err != nil {
		return found, fmt.Errorf("enter: %w", err)
	}
	for _, c := range calls {
		if c.Need != nil && !c.Need() {
			continue
		}
		if err := s.one(ctx, tx, c); err != nil {
			return found, fmt.Errorf("enter: %w", s.pg.Beginning(err))
		}
	}
	return found, nil
}

// one carries out a call by itself.
func (s *SQLStore) one(ctx context.Context, tx *sql.Tx, c pgrun.Call) (err error) {
	if !s.pgx {
		return pgrun.SendText(ctx, tx, "", []pgrun.Call{c})
	}
	if c.Scan == nil {
		did, err := tx.ExecContext(ctx, c.SQL, c.Args...)
		if err == nil && c.Done != nil {
			n, _ := did.RowsAffected() // pgx always knows
			c.Done(n)
		}
		return err
	}
	rows, err := tx.QueryContext(ctx, c.SQL, c.Args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := c.Scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
