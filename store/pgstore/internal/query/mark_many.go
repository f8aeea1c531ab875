package query

import (
	"slices"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// This file has the intake of many messages. It needs only a few statements, which lock the keys, insert the
// marks and lock the entities. Each statement uses a fixed order, so that rivals do not deadlock. A message
// that is parked or dead gets no mark, so that the other messages can be committed.

// Many reports whether the statements of this file can take an intake. The intake must have several messages
// of one consumer, without duplicates.
func Many(in store.Intake) bool {
	marks := in.Marks
	if len(marks) < 2 {
		return false
	}
	known := make(map[[2]string]bool, len(marks))
	for i := range marks {
		m := &marks[i]
		if m.Consumer != marks[0].Consumer || m.Keep > 0 || known[storedIdentity(m)] {
			return false
		}
		known[storedIdentity(m)] = true
	}
	return true
}

// storedIdentity returns the identity of m as the key columns store it.
func storedIdentity(m *store.Mark) [2]string {
	return [2]string{sqlexec.Name(m.Source), sqlexec.Name(m.ID)}
}

// AnyBlocked reports whether a message of the intake must not get a mark, because it or an earlier message of
// its key is parked or dead.
func AnyBlocked(found store.Found) bool {
	return slices.ContainsFunc(found.Marks, func(v store.Verdict) bool {
		return v.Outcome == store.Waiting || v.Outcome == store.Dead || v.Outcome == store.Behind ||
			v.Outcome == store.Stale
	})
}

// manyMarks builds the calls of an intake of many marks, and receives their results.
type manyMarks struct {
	c     *Marks
	marks []store.Mark
	fresh []bool // set to false for marks that exist already
	found []store.Verdict
}

// TakeMany returns the calls that take marks for which Many is true. They change planner settings so that
// look-ups use the indexes; Widen resets these settings.
func (c *Marks) TakeMany(marks []store.Mark, found []store.Verdict) ([]sqlexec.Call, error) {
	w := &manyMarks{c: c, marks: marks, found: found, fresh: make([]bool, len(marks))}
	list := takingOrder(marks)
	for _, i := range list {
		w.fresh[i] = true
	}
	narrow := c.pg.Call("Narrow")
	narrow.With = c.pg.SQL["TakeNarrow"]
	insert, err := w.insert(list)
	if err != nil {
		return nil, err
	}
	return append(append([]sqlexec.Call{narrow}, w.lockKeys()...), insert, w.findMarks(list)), nil
}

// takingOrder returns the order in which to insert marks. It is the order of the messages, so that their
// arrival numbers have the same order. The locks of the keys prevent deadlocks. If a mark has no such lock,
// the order is sorted instead, so that two rivals cannot deadlock.
func takingOrder(marks []store.Mark) []int {
	if slices.ContainsFunc(marks, func(m store.Mark) bool { return m.KeyOrder == store.Anytime }) {
		return sqlexec.Order(marks, byIdentity)
	}
	list := make([]int, len(marks))
	for i := range list {
		list[i] = i
	}
	return list
}

// Widen returns the call that resets the planner settings of TakeMany.
func (c *Marks) Widen() sqlexec.Call { return c.pg.Call("Widen") }

// lockKeys returns the calls that lock the keys. The calls also find the messages that are parked, or that
// must wait for a parked message.
func (w *manyMarks) lockKeys() []sqlexec.Call {
	var locks []int64
	var arrive, claimed []int
	for i := range w.marks {
		m := &w.marks[i]
		if m.KeyOrder == store.Anytime {
			continue
		}
		locks = append(locks, w.c.kept.KeyLock(m.Consumer, m.Identity, m.Key))
		if m.KeyOrder == store.Retrying {
			claimed = append(claimed, i)
		} else {
			arrive = append(arrive, i)
		}
	}
	if len(locks) == 0 {
		return nil
	}
	slices.Sort(locks)
	calls := []sqlexec.Call{w.c.pg.Call("LockKeyOrders", slices.Compact(locks))}
	if len(arrive) > 0 {
		calls = append(calls, w.arriving(arrive))
	}
	if len(claimed) > 0 {
		calls = append(calls, w.claimed(claimed))
	}
	return calls
}

// refused returns the call of the statement name. It sets the outcome of each message that must not get a
// mark.
func (w *manyMarks) refused(name string, args ...any) sqlexec.Call {
	find := w.c.pg.Call(name, args...)
	find.Scan = func(row sqlexec.Scanner) error {
		var n int32
		var outcome store.Outcome
		var noted string
		err := row.Scan(&n, &outcome, &noted)
		if err == nil {
			w.found[n].Outcome = outcome
		}
		return err
	}
	return find
}

// arriving returns the call that finds messages from the broker that must not get a mark.
func (w *manyMarks) arriving(list []int) sqlexec.Call {
	var asked sqlexec.Identities
	var keys [][]byte
	var old []int64
	var of []int32 // the index of its source, from 1
	var sources []string
	numbers := map[string]int32{}
	for _, i := range list {
		m := &w.marks[i]
		asked.Add(m.Identity, i)
		keys, old = append(keys, sqlexec.MessageKey(m.Key)), append(old, floorTime(m))
		source := sqlexec.Name(m.Source)
		if numbers[source] == 0 {
			sources = append(sources, source)
			numbers[source] = int32(len(sources))
		}
		of = append(of, numbers[source])
	}
	return w.refused("FindKeyOrders", sqlexec.Name(w.marks[0].Consumer), asked.Sources, asked.IDs, keys, old,
		asked.Places, sources, of)
}

// floorTime returns the time of m to compare with the floor, in milliseconds; 0 if the floor does not apply
// to m.
func floorTime(m *store.Mark) int64 {
	if m.Held {
		return 0
	}
	return writtenAt(m.ID)
}

// claimed returns the call that finds claimed messages that must not get a mark.
func (w *manyMarks) claimed(list []int) sqlexec.Call {
	var keyed, loose sqlexec.Identities
	var keys [][]byte
	var many, before, tries, looseTries []int32
	chains := map[string][]int{}
	for _, i := range list {
		m := &w.marks[i]
		if m.Key == nil {
			loose.Add(m.Identity, i)
			looseTries = append(looseTries, int32(m.Attempts))
			continue
		}
		if chains[string(m.Key)] == nil {
			keys = append(keys, m.Key)
		}
		chains[string(m.Key)] = append(chains[string(m.Key)], i)
	}
	for k, key := range keys {
		chain := chains[string(key)]
		keys[k] = sqlexec.MessageKey(key)
		many, before = append(many, int32(len(chain))), append(before, int32(len(tries)))
		for _, i := range chain {
			keyed.Add(w.marks[i].Identity, i)
			tries = append(tries, int32(w.marks[i].Attempts))
		}
	}
	return w.refused("FindClaimed", sqlexec.Name(w.marks[0].Consumer), keys, many, before, keyed.Sources,
		keyed.IDs, tries, keyed.Places,
		loose.Sources, loose.IDs, looseTries, loose.Places)
}

// insert returns the call that inserts the marks in the given order.
func (w *manyMarks) insert(order []int) (sqlexec.Call, error) {
	var (
		id        sqlexec.Identities
		outcomes  []int16
		reasons   []*string
		prints    []*int64
		times     []int64
		kept      []bool
		ours      = make(map[[2]string]bool, len(order))
		consumer  = sqlexec.Name(w.marks[0].Consumer)
		afterward = func(int64) {
			for _, i := range order {
				if ours[storedIdentity(&w.marks[i])] {
					continue
				}
				w.fresh[i] = false
				if w.found[i].Outcome == store.Fresh {
					w.found[i].Outcome = store.TooOld // unless a mark is found
				}
			}
		}
	)
	for _, i := range order {
		m := &w.marks[i]
		args, err := markArgs(m)
		if err != nil {
			return sqlexec.Call{}, err
		}
		id.Add(m.Identity, i)
		outcomes, reasons, prints = append(outcomes, args[3].(int16)), append(reasons, args[4].(*string)),
			append(prints, args[5].(*int64))
		times, kept = append(times, writtenAt(m.ID)), append(kept, m.Held)
	}
	return sqlexec.Call{
		SQL:  w.c.pg.SQL["InsertMarks"],
		Args: []any{consumer, id.Sources, id.IDs, outcomes, reasons, prints, id.Places, times, kept},
		Scan: func(row sqlexec.Scanner) error {
			var id [2]string
			err := row.Scan(&id[0], &id[1])
			ours[id] = true
			return err
		},
		Done: afterward,
	}, nil
}

// findMarks returns the call that reads the existing marks. It reads the marks of the messages for which the
// insert wrote no mark.
func (w *manyMarks) findMarks(list []int) sqlexec.Call {
	var id sqlexec.Identities
	for _, i := range list {
		id.Add(w.marks[i].Identity, i)
	}
	return sqlexec.Call{
		SQL:  w.c.pg.SQL["SeenMarks"],
		Args: []any{sqlexec.Name(w.marks[0].Consumer), id.Sources, id.IDs, id.Places},
		Need: func() bool { return slices.ContainsFunc(list, func(i int) bool { return !w.fresh[i] }) },
		Scan: func(row sqlexec.Scanner) error {
			var n int32
			var over bool // ignored: none of these marks expires by its scope
			var v store.Verdict
			err := scanVerdict(row, &v, &n, &over)
			if err == nil && !w.fresh[n] {
				w.found[n] = v
			}
			return err
		},
	}
}
