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
)

// keepApart are the calls for what e does with answers, reservations and the quarantine.
func (c *core) keepApart(e *store.Effect) ([]call, error) {
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
		calls = append(calls, c.call("Quarantine", append(apartArgs(q), int16(q.Why), clip(legible(q.Message.Topic)), clip(legible(q.Message.Type)), text, q.Message.Data)...))
	}
	if q := e.Admitted; q != nil {
		calls = append(calls, c.call("TakeAdmitted", apartArgs(q)...))
	}
	if a := e.Admit; a != nil {
		calls = append(calls, c.call("Admit", a.Number, legible(a.By), legible(a.Reason)))
	}
	return calls, nil
}

// writing are the calls of what an effect in a transaction of the caller's holds beside rows.
func (c *core) writing(e *store.Effect) ([]call, error) {
	calls, err := c.keepApart(e)
	if err != nil {
		return nil, err
	}
	moves, err := c.moveSaga(e.Saga)
	return append(calls, moves...), err
}

func apartArgs(q *store.Quarantined) []any {
	return []any{name(q.Consumer), name(q.Source), name(q.ID), q.Fingerprint}
}

// Secret is the key of this database's fingerprints.
func (c *core) Secret(ctx context.Context) ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	if s := c.secret.Load(); s != nil && time.Since(s.read) < secretFor {
		return s.key, nil
	}
	var text string
	if err := c.short(ctx, "read key", c.call("Secret").into(&text)); err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) < 16 {
		return nil, errors.Join(errors.New("read key: skald_setting has no 'fingerprint key': run: skald migrate"), err)
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
	limit := int32(min(cmp.Or(q.Limit, 1000), 1000))
	list := c.call("Quarantined", q.After, name(q.Consumer), name(q.ID), clip(legible(q.Topic)), clip(legible(q.Type)), int16(q.Why), q.Taken, q.Admitted, limit, q.Bare)
	if waiting := (store.Query{Consumer: q.Consumer, Admitted: true, After: q.After, Limit: q.Limit}); q == waiting && q.Consumer != "" {
		// by an index of its own: consumers ask for it all the time
		list = c.call("Admitted", q.After, name(q.Consumer), limit)
	}
	list.scan = func(row scanner) error {
		one, err := quarantined(row)
		if err == nil {
			out = append(out, one)
		}
		return err
	}
	return out, c.short(ctx, "list quarantine", list)
}

func quarantined(row scanner) (one store.Quarantined, err error) {
	var text string
	var data []byte
	var admitted, taken *time.Time
	err = row.Scan(&one.Number, &one.Consumer, &one.Source, &one.ID, &one.Fingerprint, &one.Why, &text, &one.At, &admitted, &one.By, &one.Reason, &taken,
		&data, &one.Bytes)
	if err != nil {
		return one, err
	}
	handles(&one.Consumer, &one.Source, &one.ID)
	one.At = one.At.UTC()
	if admitted != nil {
		one.Admitted = admitted.UTC()
	}
	if taken != nil {
		one.Taken = taken.UTC()
	}
	one.Message, err = held.Decode(text)
	one.Message.Data = data
	return one, err
}

// losing names a guard that was lost in a transaction of the caller's.
func (c *core) losing(err error) error {
	if lost(err) {
		return fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	return c.explain(err)
}

// entering are the calls of an intake in a transaction of the caller's own.
func (c *core) entering(in store.Intake, found *store.Found) ([]call, error) {
	in.Isolation = store.Serializable // of the caller's transaction nothing is known
	calls, err := c.intake(in, found)
	for i := range calls {
		calls[i].with = ""
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
	if err := sendIn(ctx, tx, now); err != nil {
		return found, fmt.Errorf("enter: %w", s.beginning(err))
	}
	if err := sendIn(ctx, tx, wantedOf(later)); err != nil {
		return found, fmt.Errorf("enter: %w", s.beginning(err))
	}
	return found, nil
}

func wantedOf(calls []call) (out []call) {
	for _, c := range calls {
		if c.need() {
			out = append(out, c)
		}
	}
	return out
}

func sendIn(ctx context.Context, tx pgx.Tx, calls []call) error {
	if len(calls) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	queue(b, calls)
	br := tx.SendBatch(ctx, b)
	defer br.Close()
	if err := answers(br, calls); err != nil {
		return err
	}
	return br.Close()
}

// Enter takes in within a transaction of the caller's own, statement by statement.
func (s *SQLStore) Enter(ctx context.Context, tx *sql.Tx, in store.Intake) (found store.Found, err error) {
	calls, err := s.entering(in, &found)
	if err != nil {
		return found, fmt.Errorf("enter: %w", err)
	}
	for _, c := range calls {
		if c.need != nil && !c.need() {
			continue
		}
		if err := s.one(ctx, tx, c); err != nil {
			return found, fmt.Errorf("enter: %w", s.beginning(err))
		}
	}
	return found, nil
}

// one carries out a call by itself.
func (s *SQLStore) one(ctx context.Context, tx *sql.Tx, c call) (err error) {
	if !s.pgx {
		return sendText(ctx, tx, "", []call{c})
	}
	if c.scan == nil {
		did, err := tx.ExecContext(ctx, c.sql, c.args...)
		if err == nil && c.done != nil {
			n, _ := did.RowsAffected() // pgx always knows
			c.done(n)
		}
		return err
	}
	rows, err := tx.QueryContext(ctx, c.sql, c.args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := c.scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
