package httpidem_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/store/memstore"
)

// Endpoints of one database store their answers for 24 hours, 48 hours and 30 days. After that time a key
// counts as new, even if the retention has not deleted its row yet.
func TestKeep(t *testing.T) {
	now := time.Now()
	db := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
	g := &ground[mem]{db, noteIn, func(list string) (string, error) { return db.User()[list], nil }}
	o := func(keep time.Duration) *httpidem.Options {
		out := *quiet()
		out.Keep = keep
		return &out
	}
	s := &shop[mem]{ground: g}
	legacy := &old{do: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }}
	day := 24 * time.Hour
	ends := []struct {
		keep time.Duration
		http.Handler
	}{{day, s.endpoint(o(day))}, {2 * day, wrapped(db, o(2*day), legacy)},
		{30 * day, httpidem.Handle(db, "long", httpidem.OneTenant, o(30*day), s.serve)}}
	tea := post{key: "k-1", body: `{"SKU":"tea"}`}
	began := now
	for _, after := range []time.Duration{0, 23 * time.Hour, 25 * time.Hour, 47 * time.Hour,
		71 * time.Hour, 31 * day} {
		now = began.Add(after)
		for i, e := range ends {
			runs := s.runs.Load() + legacy.runs.Load()
			w := tea.to(e)
			ran := s.runs.Load()+legacy.runs.Load() > runs
			if w.Code != http.StatusCreated {
				t.Fatalf("endpoint %d after %v: %d %s", i, after, w.Code, w.Body)
			}
			// The request runs at first, and again each time that its Keep is over since its last run.
			due := map[string]bool{"0 0s": true, "1 0s": true, "2 0s": true, "0 25h0m0s": true,
				"0 71h0m0s": true, "1 71h0m0s": true,
				"0 744h0m0s": true, "1 744h0m0s": true, "2 744h0m0s": true}[fmt.Sprint(i, " ", after)]
			if replayed(t, w, !due); ran != due {
				t.Errorf("endpoint %d after %v: it ran: %v", i, after, ran)
			}
		}
	}
	if why := (post{key: "k-1", body: `{"SKU":"salt"}`}).to(
		ends[0]); why.Code != http.StatusUnprocessableEntity {
		t.Errorf("another payload: %d %s", why.Code, why.Body)
	}
}
