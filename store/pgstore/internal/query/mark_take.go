package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// writtenAt returns the time in a UUIDv7, in milliseconds since 1970; 0 for another ID. Statements compare
// this time with the clock of the server.
func writtenAt(id string) int64 {
	at, ok := uuid7.Time(id)
	if !ok {
		return 0
	}
	return max(at.UnixMilli(), 1)
}

// markArgs returns the arguments of InsertMark. It returns an error if the outcome of m cannot be stored.
func markArgs(m *store.Mark) ([]any, error) {
	if m.Outcome != store.Done && m.Outcome != store.Rejected && m.Outcome != store.Barred {
		return nil, fmt.Errorf("mark %.40q: outcome %d cannot be stored", m.ID, m.Outcome)
	}
	var reason *string
	if m.Outcome == store.Rejected {
		reason = sqlexec.Some(column.ClipReason(sqlexec.StorableText(m.Reason)))
	}
	return []any{sqlexec.Name(m.Consumer), sqlexec.Name(m.Source), sqlexec.Name(m.ID), int16(m.Outcome),
		reason,
		sqlexec.Number(m.Fingerprint), writtenAt(m.ID), m.Held}, nil
}

// scanVerdict reads a row of FindMark into v. If a statement has other columns before those of FindMark,
// scanVerdict reads these into others.
func scanVerdict(row sqlexec.Scanner, v *store.Verdict, others ...any) error {
	var result sqlexec.Blob
	var left *int64 // microseconds
	if err := row.Scan(append(others, &v.Outcome, &v.Reason, &v.Fingerprint, &v.Code, &result, &v.Emitted,
		&v.Headers, &left)...); err != nil {
		return err
	}
	v.Result, v.Left = string(result), 0
	if left != nil {
		v.Left = cmp.Or(time.Duration(*left)*time.Microsecond, -1)
	}
	return nil
}

func byIdentity(a, b store.Mark) int {
	return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Source, b.Source),
		cmp.Compare(a.ID, b.ID))
}

// expires reports whether the mark of m expires after m.Keep. It returns false for an ID with a timestamp,
// because the floor applies to that message instead.
func expires(m *store.Mark) bool { return m.Keep > 0 && writtenAt(m.ID) == 0 }

// keepArg returns Keep in microseconds; nil means the general retention of marks.
func keepArg(m *store.Mark) *int64 {
	if m.Keep <= 0 {
		return nil
	}
	return new(m.Keep.Microseconds())
}

// Take returns the calls that lock the keys of marks and insert the marks. The calls write to verdicts. In a
// READ COMMITTED transaction, they also read rows that a rival committed after the begin.
func (c *Marks) Take(marks []store.Mark, verdicts []store.Verdict,
	readCommitted bool) ([]sqlexec.Call, error) {
	if len(marks) == 1 && readCommitted {
		if calls, err := c.takeSingle(&marks[0], &verdicts[0]); len(calls) > 0 || err != nil {
			return calls, err
		}
	}
	calls := c.kept.TakeKeyOrders(marks, verdicts)
	for _, i := range sqlexec.Order(marks, byIdentity) {
		take, err := c.takeOne(&marks[i], &verdicts[i])
		if err != nil {
			return nil, err
		}
		calls = append(calls, take...)
	}
	return calls, nil
}

// takeOne returns the calls that insert m, or read the existing mark into v.
func (c *Marks) takeOne(m *store.Mark, v *store.Verdict) ([]sqlexec.Call, error) {
	args, err := markArgs(m)
	if err != nil {
		return nil, err
	}
	fresh := true
	all := append(slices.Clip(args), keepArg(m))
	insert := c.pg.Call("InsertMark", all...)
	insert.With = c.pg.SQL["TakeMark"]
	insert.Done = func(n int64) {
		if fresh = n > 0; !fresh && v.Outcome != store.Waiting && v.Outcome != store.Dead {
			v.Outcome = store.TooOld // unless findMark reads a mark
		}
	}
	calls := []sqlexec.Call{insert}
	if expires(m) {
		not := func() bool { return !fresh }
		expire, again := c.pg.Call("ExpireMark", args[:3]...), c.pg.Call("InsertMark", all...)
		expire.Need, again.Need = not, not
		again.Done = func(n int64) {
			if n > 0 {
				fresh, v.Outcome = true, store.Fresh
			}
		}
		calls = append(calls, expire, again)
	}
	return append(calls, c.findMark(args, &fresh, v)), nil
}

// findMark returns the call that reads an existing mark into v. The call is needed if the insert wrote no
// mark.
func (c *Marks) findMark(args []any, fresh *bool, v *store.Verdict) sqlexec.Call {
	find := c.pg.Call("FindMark", args[:3]...)
	find.Need = func() bool { return !*fresh }
	find.Scan = func(row sqlexec.Scanner) error {
		if *fresh {
			return nil // this row is the new mark
		}
		return scanVerdict(row, v)
	}
	return find
}

// Guard returns the calls that insert m. They fail if the mark exists.
func (c *Marks) Guard(m *store.Mark) ([]sqlexec.Call, error) {
	args, err := markArgs(m)
	if err != nil {
		return nil, err
	}
	var calls []sqlexec.Call
	if expires(m) {
		calls = append(calls, c.pg.Call("ExpireMark", args[:3]...))
	}
	calls = append(calls, c.pg.Call("GuardMark", append(slices.Clip(args), keepArg(m))...))
	if column.Answered(m) {
		answer, err := c.Answer(m)
		return append(calls, answer...), err
	}
	return calls, nil
}

// Answer returns the calls that store the answer of the message m. They fail if the mark of m does not
// exist.
func (c *Marks) Answer(m *store.Mark) ([]sqlexec.Call, error) {
	args, err := markArgs(m)
	if err != nil {
		return nil, err
	}
	var result []byte
	if m.Result != "" {
		result = []byte(m.Result)
	}
	return []sqlexec.Call{c.pg.Call("AnswerMark", append(args[:5], m.Code, result, sqlexec.Some(m.Emitted),
		sqlexec.Some(m.Headers))...)}, nil
}

// Seen reads the marks of messages, in one statement.
func (c *Marks) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	out := make([]store.Verdict, len(ids))
	if len(ids) == 0 {
		return out, c.pg.Err
	}
	var asked sqlexec.Identities
	for i, id := range ids {
		asked.Add(id, i)
	}
	look := c.pg.Call("SeenMarks", sqlexec.Name(consumer), asked.Sources, asked.IDs, asked.Places)
	look.Scan = func(row sqlexec.Scanner) error {
		var n int32
		var over bool
		var v store.Verdict
		if err := scanVerdict(row, &v, &n, &over); err != nil {
			return err
		}
		if n < 0 || int(n) >= len(out) {
			return errors.New("a result for an unknown mark")
		}
		if !over || writtenAt(ids[n].ID) > 0 {
			out[n] = v
		}
		return nil
	}
	return out, c.pg.Short(ctx, "look up marks", c.pg.Call("Walk"), look)
}
