package storetest

import (
	"time"

	"github.com/skald-go/skald/store"
)

// lease asks once, for a long life.
func (s *suite[TTx]) lease(d store.Driver[TTx], owner, life string) []store.Lane {
	s.Helper()
	return s.ask(d, store.Ask{Owner: owner, Life: life, TTL: time.Hour}).Lanes
}

func (s *suite[TTx]) ask(d store.Driver[TTx], ask store.Ask) store.Leased {
	s.Helper()
	got, err := d.Lease(s.Context(), ask)
	s.ok(err, "lease")
	return got
}
