package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/effects"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/consumer"
	"github.com/skald-go/skald/store/pgstore/internal/kept"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

// Fragments of the statements that insert marks: see InsertMark. Where they insert many, $n stands for a
// column.
const (
	arrived = `CASE WHEN to_timestamp($written / 1000.0) < clock_timestamp() + interval '7 days'
	THEN greatest(to_timestamp($written / 1000.0), clock_timestamp()) ELSE clock_timestamp() END`

	// No floor is above an id of the last hour: see leastMarks.
	known = `CASE WHEN $written = 0 OR to_timestamp($written / 1000.0) > clock_timestamp() - interval '1 hour' THEN true
		ELSE (SELECT k.arrival FROM /*schema*/skald_mark AS k WHERE k.consumer = $1::text AND k.source = $source AND k.id = $id) IS NULL
			AND ($held OR (SELECT f.at FROM /*schema*/skald_floor AS f
				WHERE f.consumer = $1::text AND f.at >= to_timestamp($written / 1000.0)) IS NULL) END`
)

// inserts completes the statements that insert marks and steps.
func inserts(raw map[string]string) {
	for name, text := range raw {
		columns := []string{"$written", "$7::bigint", "$source", "$2::text", "$id", "$3::text", "$held",
			"$8::boolean"}
		if name == "InsertMarks" {
			columns = []string{"$written", "i.written", "$source", "i.source", "$id", "i.id",
				"$held", "i.held"}
		}
		fill := strings.NewReplacer(columns...)
		raw[name] = strings.NewReplacer("/*arrived*/", fill.Replace(arrived), "/*known*/",
			fill.Replace(known), "/*forgotten*/", forgottenStep).Replace(text)
	}
}

// writtenAt is the time that an id tells, in milliseconds; 0: it tells none. The server judges it, by its own
// clock.
func writtenAt(id string) int64 {
	at, ok := uuid7.Time(id)
	if !ok {
		return 0
	}
	return max(at.UnixMilli(), 1)
}

// markArgs are the arguments of InsertMark. m.As must be one that can be stored.
func markArgs(m *store.Mark) ([]any, error) {
	if m.As != store.Done && m.As != store.Rejected && m.As != store.Barred {
		return nil, fmt.Errorf("mark %.40q: outcome %d cannot be stored", m.ID, m.As)
	}
	var reason *string
	if m.As == store.Rejected {
		reason = column.Some(column.Clip(column.Legible(m.Reason)))
	}
	return []any{column.Name(m.Consumer), column.Name(m.Source), column.Name(m.ID), int16(m.As), reason,
		column.Number(m.Fingerprint), writtenAt(m.ID), m.Held}, nil
}

// verdict reads what FindMark and its like answer.
func verdict(row pgrun.Scanner, v *store.Verdict, before ...any) error {
	var result column.Blob
	var left *int64 // microseconds
	if err := row.Scan(append(before, &v.Outcome, &v.Reason, &v.Fingerprint, &v.Code, &result, &v.Emitted,
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

// expires tells of a mark that stands for as long as its scope says. Where the id tells a time, that decides.
func expires(m *store.Mark) bool { return m.Keep > 0 && writtenAt(m.ID) == 0 }

// keepArg is for how long m stands, in microseconds; nil: as long as marks are kept.
func keepArg(m *store.Mark) *int64 {
	if m.Keep <= 0 {
		return nil
	}
	return new(m.Keep.Microseconds())
}

// takeMark are the calls that insert m, or find what is there, into v.
func (c *core) takeMark(m *store.Mark, v *store.Verdict) ([]pgrun.Call, error) {
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
			v.Outcome = store.TooOld // unless a mark is found
		}
	}
	calls := []pgrun.Call{insert}
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

// findMark is the call that reads into v the mark that was there, if it was not fresh.
func (c *core) findMark(args []any, fresh *bool, v *store.Verdict) pgrun.Call {
	find := c.pg.Call("FindMark", args[:3]...)
	find.Need = func() bool { return !*fresh }
	find.Scan = func(row pgrun.Scanner) error {
		if *fresh {
			return nil // it is ours
		}
		return verdict(row, v)
	}
	return find
}

// alone are the calls of an intake of m alone, where m has just come and most likely is new, or was claimed
// and most likely is as it was then: two statements, and what tells it of all others only where it is not.
// None: m has to be taken otherwise. A transaction that sees all as of its first statement would not see what
// a rival did before it gave the key back.
func (c *core) alone(m *store.Mark, v *store.Verdict) ([]pgrun.Call, error) {
	tries := kept.Tries(m)
	if m.KeyOrder == store.Anytime || m.Keep > 0 || tries != nil && !m.Held {
		return nil, nil
	}
	args, err := markArgs(m)
	if err != nil {
		return nil, err
	}
	insert := c.pg.Call("InsertArriving", append(slices.Clip(args), column.MessageKey(m.Key))...)
	if tries != nil {
		insert = c.pg.Call("InsertClaimed", append(slices.Clip(args), column.MessageKey(m.Key), *tries)...)
	}
	fresh := true
	insert.Done = func(n int64) {
		if fresh = n > 0; !fresh {
			v.Outcome = store.TooOld // unless it is kept, or a mark is found
		}
	}
	not := func() bool { return !fresh }
	turned := func(row pgrun.Scanner) error {
		var as store.Outcome
		if err := row.Scan(&as); err != nil || fresh || as == store.Fresh {
			return err
		}
		v.Outcome = as
		return nil
	}
	lock := []any{c.kept.Turn(m.Consumer, m.Identity, m.Key)}
	calls := []pgrun.Call{
		{Args: lock, With: c.pg.SQL["TakeArrive"], Server: true},
		insert,
		{SQL: c.pg.SQL["KeyOrder"],
			Args: []any{lock[0], args[0], args[1], args[2], column.MessageKey(m.Key), tries},
			Scan: turned, Need: not, Also: true},
		c.findMark(args, &fresh, v),
	}
	if at := floored(m); at > 0 { // that it is too old goes before that it waits
		below := func(pgrun.Scanner) error {
			if !fresh && v.Outcome == store.Behind {
				v.Outcome = store.TooOld
			}
			return nil
		}
		calls = slices.Insert(calls, 3, pgrun.Call{SQL: c.pg.SQL["BelowFloor"], Args: []any{args[0], at},
			Scan: below, Need: not, Also: true})
	}
	return calls, nil
}

// guardMark are the calls that insert m or raise.
func (c *core) guardMark(m *store.Mark) ([]pgrun.Call, error) {
	args, err := markArgs(m)
	if err != nil {
		return nil, err
	}
	var calls []pgrun.Call
	if expires(m) {
		calls = append(calls, c.pg.Call("ExpireMark", args[:3]...))
	}
	calls = append(calls, c.pg.Call("GuardMark", append(slices.Clip(args), keepArg(m))...))
	if effects.Answered(m) {
		answer, err := c.answerMark(m)
		return append(calls, answer...), err
	}
	return calls, nil
}

// answerMark are the calls that store an answer with the mark, or raise.
func (c *core) answerMark(m *store.Mark) ([]pgrun.Call, error) {
	args, err := markArgs(m)
	if err != nil {
		return nil, err
	}
	var result []byte
	if m.Result != "" {
		result = []byte(m.Result)
	}
	return []pgrun.Call{c.pg.Call("AnswerMark", append(args[:5], m.Code, result, column.Some(m.Emitted),
		column.Some(m.Headers))...)}, nil
}

// Seen looks marks up, all in one statement.
func (c *core) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	out := make([]store.Verdict, len(ids))
	if len(ids) == 0 {
		return out, c.pg.Err
	}
	var asked column.Identities
	for i, id := range ids {
		asked.Add(id, i)
	}
	look := c.pg.Call("SeenMarks", column.Name(consumer), asked.Sources, asked.IDs, asked.Places)
	look.Scan = func(row pgrun.Scanner) error {
		var n int32
		var over bool
		var v store.Verdict
		if err := verdict(row, &v, &n, &over); err != nil {
			return err
		}
		if n < 0 || int(n) >= len(out) {
			return errors.New("an answer to no question")
		}
		if !over || writtenAt(ids[n].ID) > 0 {
			out[n] = v
		}
		return nil
	}
	return out, c.pg.Short(ctx, "look up marks", c.pg.Call("Walk"), look)
}

// bind puts the session's bounds before the calls of an intake: into the first of them where it can take them
// along.
func (c *core) bind(in store.Intake, calls []pgrun.Call) []pgrun.Call {
	wait, idle := cmp.Or(in.Wait, pgrun.DefaultWait), cmp.Or(in.Handle, pgrun.DefaultHandle)
	if len(calls) > 0 && calls[0].With != "" {
		calls[0].SQL, calls[0].Args = calls[0].With,
			append(calls[0].Args, pgrun.Millis(wait), pgrun.Millis(idle))
	} else {
		calls = slices.Insert(calls, 0, c.pg.Session(wait, idle))
	}
	switch {
	case calls[0].Server:
		calls[0].Args = append(calls[0].Args, consumer.Began(in.Server))
	case in.Server != "":
		calls = slices.Insert(calls, 1, c.pg.Call("GuardServer", consumer.Began(in.Server)))
	}
	return calls
}
