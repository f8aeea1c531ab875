package memstore

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// List lists sagas. It also returns the last examined saga if the limit Scan ended the list.
func (ss *sagaTable) List(q store.SagaQuery, limit int, now time.Time) ([]store.Saga, *store.SagaRef) {
	out := sagarow.Listing{Scan: q.Scan, Limit: limit}
	known := store.SagaQuery{Name: q.Name, Key: q.Key, Stuck: q.Stuck, Paused: q.Paused,
		Failing: q.Failing, After: q.After}
	if sagarow.Live(&q) {
		known.Status = q.Status
	}
	n := 0
	for _, s := range slices.SortedFunc(maps.Values(ss.rows), byKey) {
		if !selectsSaga(&known, &s) {
			continue
		}
		meant := selectsSaga(&q, &s)
		s.Read = now
		if q.Light {
			s.Input, s.State = "", ""
		}
		n++
		if out.Add(&s, n, meant); n == q.Scan {
			break
		}
	}
	return out.List, out.To
}

// selectsSaga reports whether q selects s.
func selectsSaga(q *store.SagaQuery, s *store.Saga) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	after := q.After == nil || byRef(store.SagaRef{Name: s.Name, Key: s.Key}, *q.After) > 0
	return after && is(q.Name, s.Name) && is(q.Key, s.Key) && is(q.ID, s.ID) && is(q.Step, s.Step) &&
		strings.Contains(s.Error, q.Error) &&
		(len(q.Status) == 0 || slices.Contains(q.Status, s.Status)) && (s.Stuck || !q.Stuck) &&
		(s.Paused || !q.Paused) &&
		(failing(s) || !q.Failing) && (q.StartedBefore.IsZero() || s.Started.Before(q.StartedBefore)) &&
		(q.StartedAfter.IsZero() || s.Started.After(q.StartedAfter))
}

// failing reports whether a saga waits for another attempt.
func failing(s *store.Saga) bool { return s.Ended.IsZero() && !s.Retry.IsZero() }

// Define stores definitions of sagas.
func (ss *sagaTable) Define(ds []store.SagaDefinition, now time.Time) {
	for _, d := range ds {
		at := definitionKey{d.Name, d.Hash}
		d.Noted, d.Number = now, ss.definitions[at].Number
		if d.Number == 0 {
			for _, other := range ss.definitions {
				if other.Name == d.Name {
					d.Number = max(d.Number, other.Number)
				}
			}
			d.Number++
		}
		ss.definitions[at] = d
	}
}

// Definitions lists the definitions by name, newest first.
func (ss *sagaTable) Definitions() []store.SagaDefinition {
	return slices.SortedFunc(maps.Values(ss.definitions), func(a, b store.SagaDefinition) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.Number, a.Number),
			cmp.Compare(a.Hash, b.Hash))
	})
}

// Count counts sagas that have not ended, by name.
func (ss *sagaTable) Count(now time.Time) (out []store.SagaCounts) {
	counts := map[string]store.SagaCounts{}
	for _, s := range ss.rows {
		c := counts[s.Name]
		c.Name = s.Name
		if s.Ended.IsZero() {
			sagaCount(&c, &s, now)
		}
		counts[s.Name] = c
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, counts[name])
	}
	return out
}

func sagaCount(c *store.SagaCounts, s *store.Saga, now time.Time) {
	c.Running += sagaOne(s.Status == "running")
	c.Compensating += sagaOne(s.Status == "compensating")
	c.Stuck += sagaOne(s.Stuck)
	c.Paused += sagaOne(s.Paused)
	c.Failing += sagaOne(failing(s))
	c.Overdue += sagaOne(sagarow.Late(s, now))
	c.Oldest = max(c.Oldest, now.Sub(s.Started))
	if failing(s) && s.Failed > 0 && !s.Since.IsZero() {
		c.FailingFor = max(c.FailingFor, now.Sub(s.Since))
	}
}
