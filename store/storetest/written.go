package storetest

import (
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// listWritten checks that published rows are listed, too: by key, ID, correlation or cause. It also checks
// the marks of several consumers with their times.
func (s *suite[TTx]) listWritten() {
	caused, other := message("k", 1), message("other", 2)
	first, keyless := message("k", 0), message("", 3)
	caused.CausationID, keyless.CorrelationID = first.ID, "saga:order:7"
	var all []store.Row
	for _, m := range []skald.Message{first, caused, other, keyless} {
		all = append(all, s.insertOne(m))
	}
	s.cover(store.Cursor{Base: s.base}) // all are published
	for _, c := range []struct {
		q    store.WrittenQuery
		want []int
	}{
		{store.WrittenQuery{Keys: [][]byte{[]byte("k")}}, []int{0, 1}},
		{store.WrittenQuery{Keys: [][]byte{[]byte("k")}, Limit: 1}, []int{1}},
		{store.WrittenQuery{About: first.ID}, []int{0, 1}},
		{store.WrittenQuery{Correlations: []string{"saga:order:7", "no"}}, []int{3}},
		{store.WrittenQuery{About: "no", Keys: [][]byte{[]byte("other"), {0xff, 0}}}, []int{2}},
		{store.WrittenQuery{}, nil},
	} {
		l, err := s.d.List(s.Context(), store.List{Written: &c.q})
		s.ok(err, "list written rows")
		var got []int
		for _, w := range l.Written {
			at := slices.IndexFunc(all, func(r store.Row) bool { return r.Seq == w.Seq })
			got = append(got, at)
			if r := all[max(at, 0)]; w.ID != r.ID || w.Source != r.Source || w.Topic != r.Topic ||
				w.Type != r.Type || w.CorrelationID != r.CorrelationID ||
				w.Written.Sub(r.Time).Abs() > time.Millisecond {
				s.Errorf("%+v, want %+v", w, r)
			}
		}
		if !slices.Equal(got, c.want) {
			s.Errorf("%+v: rows %v, want %v", c.q, got, c.want)
		}
	}
	done, no := mark(), rejected(mark(), "out of stock")
	elsewhere := mark()
	elsewhere.Identity, elsewhere.Consumer = done.Identity, "another"
	for _, m := range []store.Mark{done, no, elsewhere} {
		s.apply(store.Effect{Mark: &m})
	}
	l, err := s.d.List(s.Context(), store.List{Finished: &store.FinishedQuery{
		Consumers: []string{consumer, "another"},
		IDs:       []store.Identity{done.Identity, no.Identity, mark().Identity}}})
	s.ok(err, "list finished messages")
	if len(l.Finished) != 3 {
		s.Fatalf("three are finished: %+v", l.Finished)
	}
	for i, f := range l.Finished {
		want := []store.Mark{done, no, elsewhere}
		at := slices.IndexFunc(want, func(m store.Mark) bool {
			return m.Consumer == f.Consumer && m.Identity == f.Identity
		})
		if at < 0 || want[at].Outcome != f.Outcome || want[at].Reason != f.Reason || f.At.IsZero() ||
			i > 0 && f.At.Before(l.Finished[i-1].At) {
			s.Errorf("%+v of %+v", f, l.Finished)
		}
	}
}
