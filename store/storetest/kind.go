package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

func kindTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Noted":     (*suite[TTx]).kindNoted,
		"Forgotten": (*suite[TTx]).kindForgotten,
		"Claims":    (*suite[TTx]).kindClaims,
		"Left":      (*suite[TTx]).kindLeft,
	}
}

// noteKinds writes a heartbeat. It fails the test unless the types in want were recorded before.
func (s *suite[TTx]) noteKinds(consumer string, forget time.Duration, own []store.Kind, want ...store.Kind) {
	s.Helper()
	got, err := s.d.SyncConsumer(s.Context(),
		store.SyncRequest{Consumer: consumer, Heartbeat: &store.Heartbeat{Own: own, Forget: forget}})
	s.ok(err, "note types")
	if !slices.Equal(got.Kinds, want) {
		s.Errorf("%s: %v were noted, want %v", consumer, got.Kinds, want)
	}
}

func (s *suite[TTx]) kindNoted() {
	a, b, c := store.Kind{Topic: "orders", Type: "placed"}, store.Kind{Topic: "orders", Type: "shipped"},
		store.Kind{Topic: "Zahlung ü", Type: "it's [\"done\"]"}
	s.noteKinds(consumer, 0, nil)
	s.noteKinds(consumer, 0, []store.Kind{b, a})
	s.noteKinds(consumer, 0, []store.Kind{b, c}, a, b) // another process
	s.noteKinds(consumer, 0, []store.Kind{b, c}, c, a, b)
	s.noteKinds(consumer, 0, nil, c, a, b)
	s.noteKinds("another", time.Hour, []store.Kind{b})
	s.noteKinds("another", time.Hour, nil, b)
	s.noteKinds(consumer, time.Hour, nil, c, a, b)
	s.noteKinds("Zweiter ü", 0, []store.Kind{c})
	all, err := store.ReadBacklog(s.Context(), s.d)
	s.ok(err, "look which consumers handle what")
	var got []string
	for _, c := range all.Consumers {
		got = append(got, fmt.Sprint(c.Name, c.Topics))
	}
	if want := fmt.Sprint([]string{"Zweiter ü[" + c.Topic + "]", "another[orders]", consumer + "[" + c.Topic +
		" orders]"}); fmt.Sprint(got) != want {
		s.Errorf("consumers are %v, want %v", got, want)
	}
}

func (s *suite[TTx]) kindForgotten() {
	old, kept := store.Kind{Topic: "orders", Type: "old"}, store.Kind{Topic: "orders", Type: "kept"}
	s.noteKinds(consumer, 0, []store.Kind{old})
	s.noteKinds("another", 0, []store.Kind{old})
	for end := time.Now().Add(patience); ; { // by the store's clock
		all, err := s.d.SyncConsumer(s.Context(),
			store.SyncRequest{Consumer: consumer, Heartbeat: &store.Heartbeat{Forget: time.Millisecond}})
		s.ok(err, "delete old types")
		if !slices.Contains(all.Kinds, old) {
			break
		}
		if time.Now().After(end) {
			s.Fatalf("%v are noted", all.Kinds)
		}
	}
	s.noteKinds(consumer, time.Hour, []store.Kind{kept})
	s.noteKinds(consumer, time.Hour, nil, kept)
	s.noteKinds("another", 0, nil, old)
}

func (s *suite[TTx]) kindClaims() {
	foreign := store.Kind{Topic: "orders", Type: "foreign"}
	message := func(n int, key, typ string) store.Parked {
		p := parked(key, n)
		p.Message.Topic, p.Message.Type = "orders", typ
		return p
	}
	s.apply(keeping(message(1, "a", foreign.Type), message(2, "a", "ours"), message(3, "b", "ours"))...)
	claimed := func(next bool, want []string, not ...store.Kind) {
		s.Helper()
		c, err := s.d.Claim(s.Context(), store.ClaimRequest{Consumer: consumer, Session: "life",
			ClaimSize: store.ClaimSize{Keys: 10}, Lease: time.Hour, Not: not})
		s.ok(err, "claim")
		var got []string
		for _, p := range c.Parked {
			got = append(got, p.Message.Type+" of "+string(p.Message.Key))
		}
		if !slices.Equal(got, want) || (c.Next > 0) != next {
			s.Errorf("claimed %v and the next is due in %v, want %v, and one %v", got, c.Next, want, next)
		}
	}
	claimed(true, []string{"ours of b"}, foreign, store.Kind{Topic: "other", Type: "ours"})
	claimed(true, nil, foreign) // of b
	claimed(false, nil, foreign, store.Kind{Topic: "orders", Type: "ours"})
	claimed(true, []string{"foreign of a"})
}

// kindLeft checks that messages left to another build are listed without failed messages, messages that
// wait for them, and dead letters.
func (s *suite[TTx]) kindLeft() {
	left := func(want ...store.UnhandledKind) {
		s.Helper()
		status, err := s.d.Status(s.Context(), store.StatusQuery{Unhandled: true})
		s.ok(err, "look who handles what")
		got := status.Unhandled
		for i := range got {
			got[i].LastHeartbeat = min(got[i].LastHeartbeat, time.Hour)
			if got[i].LastHeartbeat >= 0 && got[i].LastHeartbeat < time.Hour {
				got[i].LastHeartbeat = 0
			}
		}
		if !slices.Equal(got, want) {
			s.Errorf("left are %+v, want %+v", got, want)
		}
	}
	left()
	now := time.Now()
	of := func(n int, host string, change func(p *store.Parked)) store.Parked {
		p := parked(host, n)
		p.Attempts, p.Message.Topic, p.Message.Type = 0, "orders", "renamed"
		p.Last = store.Failure{At: now.Add(time.Duration(n) * time.Second), Why: "no handler", Host: host}
		if change != nil {
			change(&p)
		}
		return p
	}
	s.apply(keeping(of(1, "a", nil), of(3, "c", nil), of(2, "b", nil),
		of(4, "d", func(p *store.Parked) { p.First, p.Attempts = p.Last, 1 }),
		of(5, "e", func(p *store.Parked) { p.Last = store.Failure{} }),
		of(6, "f", func(p *store.Parked) { p.First, p.Dead = p.Last, &store.Death{Kind: "unhandled"} }),
		of(7, "g", func(p *store.Parked) { p.Consumer = "another" }))...)
	renamed := store.Kind{Topic: "orders", Type: "renamed"}
	s.noteKinds(consumer, 0, []store.Kind{renamed, {Topic: "orders", Type: "placed"}})
	left(store.UnhandledKind{Consumer: "another", Kind: renamed, Messages: 1, Host: "g", LastHeartbeat: -1},
		store.UnhandledKind{Consumer: consumer, Kind: renamed, Messages: 3, Host: "c"})
}
