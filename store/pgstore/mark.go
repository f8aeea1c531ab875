package pgstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

const (
	maxReason = 1 << 10
	maxName   = 1 << 10 // of a consumer, source or id as it is; a longer one is kept as its hash: an index entry is limited

	markSlot = 48 * time.Hour
	ahead    = time.Hour        // an id that is further ahead of the clock carries no time
	skew     = 20 * time.Minute // by which two clocks may differ about that
	recent   = time.Hour        // a younger id is above every floor: see leastMarks
)

// A home is where the mark of an identity lies. Between ahead-skew and ahead+skew it lies in both tables, so that
// two processes whose clocks differ cannot both find it fresh.
type home struct {
	slot     int // -1: only among the timeless
	timeless bool
	old      int64 // the id's time in milliseconds, where it may lie below a floor; else 0
}

func (c *core) home(id string) home {
	at, ok := uuid7.Time(id)
	if !ok || id != strings.ToLower(id) { // ids are told apart letter by letter, which uuid does not
		return home{slot: -1, timeless: true}
	}
	before := at.Sub(c.now())
	if before > ahead+skew {
		return home{slot: -1, timeless: true}
	}
	h := home{slot: c.marks.Load().leaf(at, markSlot), timeless: before > ahead-skew}
	if before < -recent {
		h.old = max(at.UnixMilli(), 1)
	}
	return h
}

// markArgs are the arguments of InsertMark; m.As must be one that can be stored.
func markArgs(m *store.Mark) ([]any, error) {
	if m.As != store.Done && m.As != store.Rejected && m.As != store.Barred {
		return nil, fmt.Errorf("mark %.40q: outcome %d cannot be stored", m.ID, m.As)
	}
	var reason *string
	if m.As == store.Rejected {
		reason = some(clip(legible(m.Reason)))
	}
	return []any{name(m.Consumer), name(m.Source), name(m.ID), int16(m.As), reason, number(m.Fingerprint)}, nil
}

// number is nil for 0, which is not known.
func number(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// verdict reads what FindMark and its like answer.
func verdict(row scanner, v *store.Verdict, before ...any) error {
	var result []byte
	if err := row.Scan(append(before, &v.Outcome, &v.Reason, &v.Fingerprint, &v.Code, &result, &v.Said)...); err != nil {
		return err
	}
	v.Result = string(result)
	return nil
}

// name is s as a key column can hold it.
func name(s string) string {
	if len(s) <= maxName && storable(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// clip cuts a reason at the limit, between letters.
func clip(s string) string { return clipTo(s, maxReason) }

func clipTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n := most
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func byIdentity(a, b store.Mark) int {
	return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Source, b.Source), cmp.Compare(a.ID, b.ID))
}

// order is the indices of list, stably sorted: intakes that take in the same order never wait in a circle.
func order[T any](list []T, compare func(a, b T) int) []int {
	idx := make([]int, len(list))
	for i := range idx {
		idx[i] = i
	}
	if len(list) > 1 {
		slices.SortStableFunc(idx, func(i, j int) int { return compare(list[i], list[j]) })
	}
	return idx
}

// takeMark are the calls that insert m, or find what is there, into v.
func (c *core) takeMark(m *store.Mark, v *store.Verdict) ([]call, error) {
	args, err := markArgs(m)
	if err != nil {
		return nil, err
	}
	at, fresh := c.home(m.ID), true
	count := func(n int64) {
		if fresh = fresh && n > 0; !fresh && v.Outcome != store.Waiting && v.Outcome != store.Dead {
			v.Outcome = store.TooOld // unless a mark is found
		}
	}
	found := func(row scanner) error {
		if fresh {
			return nil // it is ours
		}
		return verdict(row, v)
	}
	var calls []call
	find := call{sql: c.sql["FindTimeless"], args: args[:3], scan: found, need: func() bool { return !fresh }}
	if at.timeless {
		calls = append(calls, call{sql: c.sql["InsertTimeless"], args: args, done: count})
	}
	if at.slot >= 0 {
		leaf := c.marks.Load().text[at.slot]
		insert := call{sql: leaf["InsertMark"], args: append(slices.Clone(args), at.timeless), done: count, with: leaf["TakeMark"]}
		if at.old > 0 && !m.Held {
			insert.sql, insert.args, insert.with = leaf["InsertOld"], append(insert.args, at.old), ""
		}
		calls = append(calls, insert)
		find.sql = leaf["FindMark"]
	}
	return append(calls, find), nil
}

// alone are the calls of an intake of m alone, where m has just come and most likely is new, or was claimed and most likely is as it was then:
// two statements, and what tells it of all others only where it is not. None: m has to be taken otherwise. A transaction that sees all as of
// its first statement would not see what a rival did before it gave the key back.
func (c *core) alone(m *store.Mark, v *store.Verdict) ([]call, error) {
	at, tries := c.home(m.ID), triesOf(m)
	if m.Turn == store.Anytime || tries != nil && !m.Held || at.slot >= 0 && at.timeless {
		return nil, nil
	}
	args, err := markArgs(m)
	if err != nil {
		return nil, err
	}
	statement, taken := "InsertArriving", append(slices.Clip(args), m.Key)
	if tries != nil {
		statement, taken = "InsertClaimed", append(taken, *tries)
	}
	insert, find, old := c.sql[statement+"Timeless"], c.sql["FindTimeless"], at.slot >= 0 && at.old > 0 && !m.Held
	if at.slot >= 0 {
		leaf := c.marks.Load().text[at.slot]
		if insert, find = leaf[statement], leaf["FindMark"]; old {
			insert, taken = leaf["InsertArrivingOld"], append(taken, at.old)
		}
	}
	fresh := true
	count := func(n int64) {
		if fresh = n > 0; !fresh {
			v.Outcome = store.TooOld // unless it is kept, or a mark is found
		}
	}
	not := func() bool { return !fresh }
	turned := func(row scanner) error {
		var as store.Outcome
		if err := row.Scan(&as); err != nil || fresh || as == store.Fresh {
			return err
		}
		v.Outcome = as
		return nil
	}
	found := func(row scanner) error {
		if fresh {
			return nil // it is ours
		}
		return verdict(row, v)
	}
	lock := []any{c.turn(m.Consumer, m.Identity, m.Key)}
	calls := []call{
		{args: lock, with: c.sql["TakeArrive"], server: true},
		{sql: insert, args: taken, done: count},
		{sql: c.sql["Turn"], args: []any{lock[0], args[0], args[1], args[2], m.Key, tries}, scan: turned, need: not, also: true},
		{sql: find, args: args[:3], scan: found, need: not},
	}
	if old { // that it is too old goes before that it waits
		below := func(scanner) error {
			if !fresh && v.Outcome == store.Behind {
				v.Outcome = store.TooOld
			}
			return nil
		}
		calls = slices.Insert(calls, 3, call{sql: c.sql["BelowFloor"], args: []any{args[0], at.old}, scan: below, need: not, also: true})
	}
	return calls, nil
}

// guardMark are the calls that insert m or raise.
func (c *core) guardMark(m *store.Mark) ([]call, error) {
	args, err := markArgs(m)
	if err != nil {
		return nil, err
	}
	at := c.home(m.ID)
	var calls []call
	if at.timeless {
		calls = append(calls, call{sql: c.sql["GuardTimeless"], args: args})
	}
	if at.slot >= 0 {
		guard := call{sql: c.marks.Load().text[at.slot]["GuardMark"], args: append(slices.Clone(args), at.timeless)}
		if at.old > 0 && !m.Held {
			guard.sql, guard.args = c.marks.Load().text[at.slot]["GuardOld"], append(guard.args, at.old)
		}
		calls = append(calls, guard)
	}
	if m.Code != 0 || m.Result != "" || m.Said != "" {
		answer, err := c.answerMark(m)
		return append(calls, answer...), err
	}
	return calls, nil
}

// answerMark are the calls that store an answer with the mark, or raise.
func (c *core) answerMark(m *store.Mark) ([]call, error) {
	args, err := markArgs(m)
	if err != nil {
		return nil, err
	}
	var result []byte
	if m.Result != "" {
		result = []byte(m.Result)
	}
	args = append(args[:5], m.Code, result, some(m.Said))
	if at := c.home(m.ID); at.slot >= 0 {
		return []call{{sql: c.marks.Load().text[at.slot]["AnswerMark"], args: args}}, nil
	}
	return []call{c.call("AnswerTimeless", args...)}, nil
}

// wanted are the ids of one table and their places in the answer.
type wanted struct {
	sources, ids []string
	places       []int32
}

func (w *wanted) add(id store.Identity, place int) {
	w.sources, w.ids, w.places = append(w.sources, name(id.Source)), append(w.ids, name(id.ID)), append(w.places, int32(place))
}

// Seen looks marks up, many in one statement for each leaf.
func (c *core) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	out := make([]store.Verdict, len(ids))
	if len(ids) == 0 {
		return out, c.err
	}
	if err := c.reread(ctx); err != nil {
		return out, err
	}
	leaves := map[int]*wanted{}
	var timeless wanted
	for i, id := range ids {
		if at := c.home(id.ID); at.slot >= 0 {
			if leaves[at.slot] == nil {
				leaves[at.slot] = &wanted{}
			}
			leaves[at.slot].add(id, i)
		} else {
			timeless.add(id, i)
		}
	}
	scan := func(row scanner) error {
		var n int32
		var v store.Verdict
		if err := verdict(row, &v, &n); err != nil {
			return err
		}
		if n < 0 || int(n) >= len(out) {
			return errors.New("an answer to no question")
		}
		out[n] = v
		return nil
	}
	calls := []call{c.call("Walk")}
	look := func(sql string, w wanted) {
		if len(w.ids) > 0 {
			calls = append(calls, call{sql: sql, args: []any{name(consumer), w.sources, w.ids, w.places}, scan: scan})
		}
	}
	if c.err == nil {
		for _, i := range slices.Sorted(maps.Keys(leaves)) {
			look(c.marks.Load().text[i]["SeenMarks"], *leaves[i])
		}
		look(c.sql["SeenTimeless"], timeless)
	}
	return out, c.short(ctx, "look up marks", calls...)
}
