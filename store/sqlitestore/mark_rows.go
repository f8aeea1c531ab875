// The files mark*.go have the marks of finished messages, their answers, and the reservations of keys. A mark
// is in the transaction of the message's effect, so a duplicate of the message has no effect.

package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// markPut inserts m, or returns the verdict of the existing mark. It returns TooOld if retention may have
// deleted the mark.
func markPut(ctx context.Context, x *sqlexec.Session, m store.Mark) (v store.Verdict, err error) {
	if !storable(m.Outcome) {
		return v, fmt.Errorf("mark %s: outcome %d cannot be stored", m.ID, m.Outcome)
	}
	reason := sql.NullString{String: column.ClipReason(m.Reason), Valid: m.Outcome == store.Rejected}
	fingerprint := sql.NullInt64{Int64: m.Fingerprint, Valid: m.Fingerprint != 0}
	keep := sql.NullInt64{Int64: m.Keep.Milliseconds(), Valid: m.Keep > 0}
	if err := expire(ctx, x, m.Consumer, m.Identity, m.Keep); err != nil {
		return v, err
	}
	n, err := x.Count(ctx, "InsertMark", m.Consumer, m.Source, m.ID, int64(m.Outcome), reason, fingerprint,
		timeInID(m.ID), !m.Held, keep)
	if err != nil {
		return v, fmt.Errorf("insert mark: %w", err)
	}
	if n == 1 {
		return v, nil
	}
	err = find(ctx, x, m.Consumer, m.Identity, &v)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Verdict{Outcome: store.TooOld}, nil
	}
	if err != nil {
		return v, fmt.Errorf("find mark: %w", err)
	}
	return v, nil
}

// takeBack deletes a mark that this transaction inserted, because its message is parked or dead. So the
// transaction can commit the other marks.
func takeBack(ctx context.Context, x *sqlexec.Session, m *store.Mark) error {
	if _, err := x.Exec(ctx, "TakeBackMark", m.Consumer, m.Source, m.ID); err != nil {
		return fmt.Errorf("delete a mark of this transaction: %w", err)
	}
	return nil
}

// find reads a mark and its answer into v. It returns sql.ErrNoRows if the mark does not exist.
func find(ctx context.Context, x *sqlexec.Session, consumer string, id store.Identity,
	v *store.Verdict) error {
	return verdict(x.Row(ctx, "FindMark", consumer, id.Source, id.ID), v)
}

// verdict reads a row of FindMark.
func verdict(row *sql.Row, v *store.Verdict) error {
	var result []byte
	var left sql.NullInt64 // in milliseconds
	err := row.Scan(&v.Outcome, &v.Reason, &v.Fingerprint, &v.Code, &result, &v.Emitted, &v.Headers, &left)
	v.Result, v.Left = string(result), 0
	if left.Valid {
		v.Left = cmp.Or(time.Duration(left.Int64)*time.Millisecond, -1)
	}
	return err
}

// expire deletes a mark if its retention Keep has ended. It does nothing for an ID with a timestamp, because
// the floor of the consumer applies to that message instead.
func expire(ctx context.Context, x *sqlexec.Session, consumer string, id store.Identity,
	keep time.Duration) error {
	if keep <= 0 || timeInID(id.ID) != nil {
		return nil
	}
	if _, err := x.Exec(ctx, "ExpireMark", consumer, id.Source, id.ID); err != nil {
		return fmt.Errorf("expire mark: %w", err)
	}
	return nil
}

func storable(o store.Outcome) bool {
	return o == store.Done || o == store.Rejected || o == store.Barred
}

// timeInID returns the time in a UUIDv7, in milliseconds since 1970. It returns NULL for another ID.
func timeInID(id string) any {
	at, ok := uuid7.Time(id)
	if !ok {
		return nil
	}
	return at.UnixMilli()
}
