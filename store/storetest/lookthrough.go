package storetest

import (
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// lookThrough checks a list without an index. The list examines Scan rows, and the next list continues after
// them.
func (s *suite[TTx]) lookThrough() {
	var all []store.Parked
	for n := range 8 {
		p := parked("k", n)
		p.Message.Topic, p.Message.Type = "goods", "odd"
		if n == 2 { // the text is not part of its identity
			p.Message.ID = ""
		}
		if n%2 == 0 {
			p.Message.Type = "even"
		}
		p.Message.CorrelationID, p.Message.CausationID = `a <"process">`, "none"
		if n >= 4 {
			p.Message.CorrelationID, p.Message.CausationID = "none", `a <"process">`
			p.Dead = &store.Death{Kind: []string{"permanent", "attempts"}[n%2], Fingerprint: "f",
				At: time.Date(2026, 5, 1, 12, n, 0, 0, time.UTC)}
		}
		all = append(all, p)
	}
	s.apply(keeping(all...)...)
	died := func(n int) time.Time { return all[n].Dead.At }
	yes := true
	for _, c := range []struct {
		what store.ParkedQuery
		want []string
		more bool
	}{
		{store.ParkedQuery{Type: "even"}, []string{"0", "2", "4", "6"}, false},
		{store.ParkedQuery{Type: "even", Topic: "goods"}, []string{"0", "2", "4", "6"}, false},
		{store.ParkedQuery{Type: "even", Topic: "other"}, nil, false},
		{store.ParkedQuery{Kind: "permanent"}, []string{"4", "6"}, false},
		{store.ParkedQuery{Dead: &yes, Kind: "attempts", Fingerprint: "f"}, []string{"5", "7"}, false},
		{store.ParkedQuery{DeadFrom: died(5)}, []string{"5", "6", "7"}, false},
		{store.ParkedQuery{DeadFrom: died(5), DeadTo: died(7)}, []string{"5", "6"}, false},
		{store.ParkedQuery{About: all[2].ID}, []string{"2"}, false},
		{store.ParkedQuery{About: all[3].ID}, []string{"3"}, false},
		{store.ParkedQuery{About: "5"}, []string{"5"}, false},
		{store.ParkedQuery{About: `a <"process">`}, []string{"0", "1", "2", "3", "4", "5", "6", "7"}, false},
		{store.ParkedQuery{About: "process"}, nil, false},
		{store.ParkedQuery{About: `a <"process">`, Key: []byte("k"), Type: "odd"}, []string{"1", "3", "5", "7"},
			false},
		{store.ParkedQuery{Scan: 3}, []string{"0", "1", "2"}, true},
		{store.ParkedQuery{Scan: 3, Limit: 2}, []string{"0", "1"}, false},
		{store.ParkedQuery{Scan: 3, Type: "odd"}, []string{"1"}, true},
		{store.ParkedQuery{Scan: 9, Type: "odd"}, []string{"1", "3", "5", "7"}, false},
		{store.ParkedQuery{Scan: 2, Dead: &yes, Key: []byte("k"), Type: "odd"}, []string{"5"}, true},
	} {
		var got []string
		list, err := s.d.List(s.Context(), store.List{Parked: &c.what})
		s.ok(err, "list")
		for _, p := range list.Parked {
			got = append(got, p.Message.Subject)
		}
		if !slices.Equal(got, c.want) || c.more != (list.ParkedTo > 0) {
			s.Errorf("%+v lists %v, up to %d, want %v", c.what, got, list.ParkedTo, c.want)
		}
		if !c.more {
			continue
		}
		rest := c.what
		rest.After, rest.Scan = list.ParkedTo, 0
		if next := s.kept(rest); len(list.Parked)+
			len(next) != len(s.kept(store.ParkedQuery{Dead: rest.Dead, Type: rest.Type})) {
			s.Errorf("%+v: after it %d more", c.what, len(next))
		}
	}
}

func (s *suite[TTx]) sagaList() {
	keys := []string{"a", "b", "c", "d", "e"}
	for i, key := range keys {
		s.start(sagaOf(key))
		m := nextMove(s.saga(key), "1")
		switch i {
		case 0:
			m.Stuck, m.Error, m.Step = true, "100% of 'it_'\\ failed", "charge"
		case 1:
			m.Paused = true
		case 2:
			m.Retry, m.Failed, m.Error, m.Status = time.Now().Add(time.Hour), 3, "no", "compensating"
		case 3:
			m.Final, m.Status = true, "done"
		case 4:
			continue
		}
		s.apply(store.Effect{Saga: m})
	}
	other := sagaOf("a")
	other.Name = "invoice"
	s.start(other)
	first, last := s.saga("a").Started, s.saga("e").Started
	for what, c := range map[string]struct {
		q    store.SagaQuery
		want string
	}{
		"all":         {store.SagaQuery{}, "a a b c d e"},
		"of a name":   {store.SagaQuery{Name: "order"}, "a b c d e"},
		"of a key":    {store.SagaQuery{Key: "a"}, "a a"},
		"of an id":    {store.SagaQuery{ID: s.saga("c").ID}, "c"},
		"of a status": {store.SagaQuery{Status: []string{"compensating", "done"}}, "c d"},
		"stuck":       {store.SagaQuery{Stuck: true}, "a"},
		"paused":      {store.SagaQuery{Paused: true}, "b"},
		"failing":     {store.SagaQuery{Failing: true}, "c"},
		"at a step":   {store.SagaQuery{Step: "charge"}, "a"},
		"of an error": {store.SagaQuery{Error: "% of 'it_'\\"}, "a"},
		"of no error": {store.SagaQuery{Error: "%"}, "a"},
		"early":       {store.SagaQuery{Name: "order", StartedBefore: first}, ""},
		"late":        {store.SagaQuery{Name: "order", StartedAfter: last}, ""},
		"from the start": {store.SagaQuery{Name: "order", StartedAfter: first.Add(-time.Millisecond),
			StartedBefore: last.Add(time.Millisecond)}, "a b c d e"},
		"after one": {store.SagaQuery{Name: "order", After: &store.SagaRef{Name: "order", Key: "b"}},
			"c d e"},
		"after a name": {store.SagaQuery{After: &store.SagaRef{Name: "invoice", Key: "a"}, Limit: 2}, "a b"},
		"of bytes":     {store.SagaQuery{Key: "\xff\x00"}, ""},
	} {
		got, err := store.ListSagas(s.Context(), s.d, c.q)
		s.ok(err, "list %s", what)
		if keys := keysOf(got); keys != c.want {
			s.Errorf("%s: %q, want %q", what, keys, c.want)
		}
	}
	s.lookThroughSagas()
}
