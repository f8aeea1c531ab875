package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skald-go/skald/store"
)

const lanes = 16 // of every database of the suite

func laneTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"TakesAll":        (*suite[TTx]).laneTakesAll,
		"Renewal":         (*suite[TTx]).laneRenewal,
		"FairShare":       (*suite[TTx]).laneFairShare,
		"Free":            (*suite[TTx]).laneFree,
		"Leave":           (*suite[TTx]).laneLeave,
		"Wait":            (*suite[TTx]).laneWait,
		"Look":            (*suite[TTx]).laneLook,
		"TakeOver":        (*suite[TTx]).laneTakeOver,
		"NewLife":         (*suite[TTx]).laneNewLife,
		"ManyAtOnce":      (*suite[TTx]).laneManyAtOnce,
		"Progress":        (*suite[TTx]).laneProgress,
		"ProgressOfOne":   (*suite[TTx]).laneProgressOfOne,
		"StaleProgress":   (*suite[TTx]).laneStaleProgress,
		"ManyProgresses":  (*suite[TTx]).laneManyProgresses,
		"CursorOfAll":     (*suite[TTx]).laneCursorOfAll,
		"LostInWholeUnit": (*suite[TTx]).laneLostInWholeUnit,
		"TakenWhileWaits": (*suite[TTx]).laneTakenWhileWaits,
	}
}

// lease asks once, for a long life.
func (s *suite[TTx]) lease(d store.Driver[TTx], owner, life string) []store.Lane {
	s.Helper()
	return s.ask(d, store.Ask{Owner: owner, Life: life, TTL: time.Hour}).Lanes
}

func (s *suite[TTx]) ask(d store.Driver[TTx], ask store.Ask) store.Leased {
	s.Helper()
	got, err := d.Lease(s.Context(), ask)
	s.ok(err, "lease")
	slices.SortFunc(got.Lanes, func(a, b store.Lane) int { return a.ID - b.ID })
	return got
}

func laneIDs(ls []store.Lane) (out []int) {
	for _, l := range ls {
		out = append(out, l.ID)
	}
	return out
}

// under is progress on l by its owner.
func under(l store.Lane) store.Progress {
	return store.Progress{Lane: l.ID, Epoch: l.Epoch, Token: l.Token}
}

func progress(p store.Progress) store.Effect { return store.Effect{Lane: &p} }

func (s *suite[TTx]) laneTakesAll() {
	got := s.ask(s.d, store.Ask{Owner: "one", Life: "1", TTL: time.Hour})
	if len(got.Lanes) != lanes || got.Share != lanes || got.Lives != 1 {
		s.Fatalf("the only relay has %d lanes, a share of %d, of %d lives", len(got.Lanes), got.Share, got.Lives)
	}
	next, tokens := 0, map[string]bool{}
	slices.SortFunc(got.Lanes, func(a, b store.Lane) int { return a.First - b.First })
	for _, l := range got.Lanes {
		if l.First != next || l.Last < l.First {
			s.Errorf("lane %d is %d to %d, want it to begin at %d", l.ID, l.First, l.Last, next)
		}
		if l.Epoch < 1 || l.Token == "" || l.Cursor != (store.Cursor{}) || l.Incarnation != "" {
			s.Errorf("a new lane is %+v", l)
		}
		next, tokens[l.Token] = l.Last+1, true
	}
	if next != store.Buckets {
		s.Errorf("the lanes end at %d", next)
	}
}

func (s *suite[TTx]) laneRenewal() {
	first := s.lease(s.d, "one", "1")
	for range 3 {
		if again := s.lease(s.db.Driver(s), "one", "1"); !slices.Equal(again, first) {
			s.Fatalf("a renewal gives %+v, it was %+v", again, first)
		}
	}
}

// settle lets each owner ask once and give back what is above its share at its next turn, until all is settled.
func (s *suite[TTx]) settle(owners []string) map[string][]store.Lane {
	held := map[string]store.Leased{}
	s.until("every relay has its share", func() bool {
		quiet := true
		for _, o := range owners {
			was := held[o]
			ask := store.Ask{Owner: o, Life: "1", TTL: time.Hour}
			if n := len(was.Lanes); n > was.Share {
				ask.Free = laneIDs(was.Lanes[was.Share:])
			}
			held[o] = s.ask(s.d, ask)
			if n := len(held[o].Lanes); n > held[o].Share && n > len(was.Lanes) {
				s.Fatalf("a relay takes %d lanes, its share is %d", n, held[o].Share)
			}
			quiet = quiet && ask.Free == nil && len(held[o].Lanes) <= held[o].Share && slices.Equal(was.Lanes, held[o].Lanes) && held[o].Lives == min(len(owners), lanes)
		}
		return quiet
	})
	out := map[string][]store.Lane{}
	for o, got := range held {
		out[o] = got.Lanes
	}
	return out
}

func (s *suite[TTx]) laneFairShare() {
	var owners []string
	for n := 1; n <= lanes+3; n++ {
		owners = append(owners, fmt.Sprintf("relay-%c", 'z'-n))
		if n > 5 && n < lanes-1 {
			continue
		}
		taken, most, least := map[int]bool{}, 0, lanes
		for _, ls := range s.settle(owners) {
			most, least = max(most, len(ls)), min(least, len(ls))
			for _, l := range ls {
				taken[l.ID] = true
			}
		}
		if len(taken) != lanes {
			s.Fatalf("with %d relays %d lanes have an owner", n, len(taken))
		}
		if n <= lanes && least < 1 || most > (lanes+n-1)/n {
			s.Fatalf("with %d relays one has %d lanes, another %d", n, least, most)
		}
	}
}

func (s *suite[TTx]) laneFree() {
	was := s.lease(s.d, "one", "1")
	s.apply(progress(func() store.Progress { p := under(was[3]); p.Incarnation = new("b"); return p }()))
	left := s.ask(s.d, store.Ask{Owner: "one", Life: "1", TTL: time.Hour, Free: []int{was[3].ID, was[5].ID}}).Lanes
	if len(left) != lanes-2 || slices.Contains(laneIDs(left), was[3].ID) || slices.Contains(laneIDs(left), was[5].ID) {
		s.Fatalf("after two were given back %v are left", laneIDs(left))
	}
	s.applied([]bool{false}, progress(under(was[3])))
	other := s.ask(s.d, store.Ask{Owner: "two", Life: "1", TTL: time.Hour})
	if want := []int{was[3].ID, was[5].ID}; !slices.Equal(laneIDs(other.Lanes), want) || other.Lives != 2 {
		s.Fatalf("another relay takes %v of %v, with %d lives", laneIDs(other.Lanes), want, other.Lives)
	}
	if l := other.Lanes[0]; l.Epoch <= was[3].Epoch || l.Token == was[3].Token || l.Incarnation != "b" {
		s.Errorf("the lane goes from %+v to %+v", was[3], l)
	}
	// Nobody gives back what is not his.
	s.ask(s.d, store.Ask{Owner: "one", Life: "1", TTL: time.Hour, Free: laneIDs(other.Lanes)})
	s.apply(progress(under(other.Lanes[0])), progress(under(other.Lanes[1])))
}

func (s *suite[TTx]) laneLeave() {
	was := s.lease(s.d, "one", "1")
	if got := s.ask(s.d, store.Ask{Owner: "one", Life: "1", TTL: time.Hour, Leave: true}); len(got.Lanes) != 0 {
		s.Fatalf("who leaves has %v", laneIDs(got.Lanes))
	}
	s.applied([]bool{false}, progress(under(was[0])))
	got := s.ask(s.d, store.Ask{Owner: "two", Life: "1", TTL: time.Hour})
	if len(got.Lanes) != lanes || got.Lives != 1 || got.Share != lanes {
		s.Fatalf("behind one that left there are %d lanes, a share of %d, %d lives", len(got.Lanes), got.Share, got.Lives)
	}
	// A relay of one name that leaves takes nothing from another.
	s.ask(s.d, store.Ask{Owner: "one", Life: "1", Leave: true})
	s.apply(progress(under(got.Lanes[0])))
}

// takenOver wants a lane under another owner: fenced, and where the one before left it.
func (s *suite[TTx]) takenOver(was, is store.Lane, c store.Cursor) {
	s.Helper()
	if is.Epoch <= was.Epoch || is.Token == was.Token || is.Token == "" {
		s.Fatalf("lane %d goes from epoch %d to %d", is.ID, was.Epoch, is.Epoch)
	}
	if is.Cursor != c || is.Incarnation != "b7" {
		s.Fatalf("lane %d has come to %+v of %q, want %+v", is.ID, is.Cursor, is.Incarnation, c)
	}
	s.applied([]bool{false, true}, progress(under(was)), progress(under(is)))
}

// advance stores a cursor and an incarnation.
func (s *suite[TTx]) advance(l store.Lane) store.Cursor {
	s.Helper()
	s.say(message("a", 1))
	c := store.Cursor{Base: s.tick(""), Seq: 1}
	p := under(l)
	p.Cursor, p.Incarnation = &c, new("b7")
	s.apply(progress(p))
	return c
}

// laneWait: with as many relays as lanes another waits, is counted apart, and is the one to follow whoever goes.
func (s *suite[TTx]) laneWait() {
	owners := make([]string, lanes)
	for i := range owners {
		owners[i] = fmt.Sprintf("relay-%02d", i)
	}
	s.settle(owners)
	long := func(owner string) store.Leased {
		return s.ask(s.d, store.Ask{Owner: owner, Life: "1", TTL: 500 * time.Millisecond, Wait: time.Hour})
	}
	for n, owner := range []string{"a", "z"} {
		if got := long(owner); len(got.Lanes) != 0 || got.Share != 0 || got.Lives != lanes || got.Waiting != n+1 {
			s.Fatalf("behind %d relays %q is told %+v", lanes, owner, got)
		}
	}
	if got := s.ask(s.d, store.Ask{Owner: owners[0], Life: "1", TTL: time.Hour}); len(got.Lanes) != 1 || got.Share != 1 || got.Waiting != 2 {
		s.Fatalf("beside two that wait one that works is told %+v", got)
	}
	s.ask(s.d, store.Ask{Owner: owners[3], Life: "1", Leave: true})
	if got := long("z"); len(got.Lanes) != 1 || got.Share != 1 || got.Lives != lanes || got.Waiting != 1 {
		s.Fatalf("the follower of one that left is told %+v", got)
	}
	// It is counted for its TTL now, not for as long as one that waits.
	s.until("a silent follower has one itself", func() bool { return len(long("a").Lanes) == 1 })
	s.until("those that wait are forgotten", func() bool {
		s.ask(s.d, store.Ask{Owner: "b", Life: "1", TTL: time.Millisecond})
		return s.ask(s.d, store.Ask{Owner: owners[0], Life: "1", TTL: time.Hour}).Waiting == 0
	})
}

// laneLook: a lease that looks answers as Tick does.
func (s *suite[TTx]) laneLook() {
	look := func(from string) string {
		s.Helper()
		got := s.ask(s.d, store.Ask{Owner: "one", Life: "1", TTL: time.Hour, Look: &from})
		if len(got.Lanes) != lanes {
			s.Errorf("with a look there are %d lanes", len(got.Lanes))
		}
		return got.Tip
	}
	if tip := look(""); tip != "" {
		s.Fatalf("in an empty outbox a look finds %q", tip)
	}
	s.say(message("a", 1))
	one := look("")
	if page, err := s.d.Pull(s.Context(), store.Window{Tip: one}, 10); err != nil || len(page.Rows) != 1 || !page.Done {
		s.Fatalf("the window that a look opened has %+v, %v", page, err)
	}
	if again := look(one); again != one {
		s.Fatalf("nothing was said since %q, and a look finds %q", one, again)
	}
	if _, err := s.d.Lease(s.Context(), store.Ask{Owner: "one", Life: "1", Look: new("99999-nobody")}); !errors.Is(err, store.ErrMoved) {
		s.Errorf("a look from a tick that is not there: %v", err)
	}
}

func (s *suite[TTx]) laneTakeOver() {
	was := s.ask(s.d, store.Ask{Owner: "one", Life: "1", TTL: time.Hour}).Lanes
	c := s.advance(was[0])
	if got := s.ask(s.d, store.Ask{Owner: "two", Life: "1", TTL: time.Hour}).Lanes; len(got) != 0 {
		s.Fatalf("%v are taken from one that lives", laneIDs(got))
	}
	was = s.ask(s.d, store.Ask{Owner: "one", Life: "1", TTL: time.Millisecond}).Lanes
	var is []store.Lane
	s.until("the lanes of a silent relay are taken over", func() bool {
		got := s.ask(s.db.Driver(s), store.Ask{Owner: "two", Life: "1", TTL: time.Hour})
		is = got.Lanes
		return len(is) == lanes && got.Lives == 1
	})
	s.takenOver(was[0], is[0], c)
	if got := s.ask(s.d, store.Ask{Owner: "one", Life: "1", TTL: time.Hour}); len(got.Lanes) != 0 || got.Lives != 2 {
		s.Fatalf("one that wakes holds %v of %d lives", laneIDs(got.Lanes), got.Lives)
	}
}

func (s *suite[TTx]) laneNewLife() {
	was := s.lease(s.d, "one", "1")
	c := s.advance(was[0])
	got := s.ask(s.db.Driver(s), store.Ask{Owner: "one", Life: "2", TTL: time.Hour})
	if len(got.Lanes) != lanes || got.Lives != 1 {
		s.Fatalf("a new life of the owner holds %d lanes, of %d lives", len(got.Lanes), got.Lives)
	}
	s.takenOver(was[0], got.Lanes[0], c)
	// What the former life says at its end takes nothing from its successor.
	s.ask(s.d, store.Ask{Owner: "one", Life: "1", Leave: true})
	s.apply(progress(under(got.Lanes[0])))
	if other := s.ask(s.d, store.Ask{Owner: "two", Life: "1", TTL: time.Hour}); len(other.Lanes) != 0 || other.Lives != 2 {
		s.Fatalf("after the former life left another relay holds %v of %d lives", laneIDs(other.Lanes), other.Lives)
	}
	if again := s.lease(s.d, "one", "2"); !slices.Equal(laneIDs(again), laneIDs(got.Lanes)) || again[0].Epoch != got.Lanes[0].Epoch {
		s.Fatalf("after the former life left its successor holds %v", laneIDs(again))
	}
}

// Whoever holds a lane holds it under an epoch of its own.
func (s *suite[TTx]) laneManyAtOnce() {
	type hold struct {
		lane  int
		epoch int64
	}
	var mu sync.Mutex
	owner := map[hold]string{}
	var wg sync.WaitGroup
	for i := range 5 {
		d, name := s.db.Driver(s), fmt.Sprint("relay-", i)
		wg.Go(func() {
			var free []int
			for turn := range 12 {
				got, err := d.Lease(s.Context(), store.Ask{Owner: name, Life: fmt.Sprint(turn / 4), TTL: time.Hour, Free: free})
				if err != nil && !d.Outage(err) {
					s.Errorf("lease: %v", err)
				}
				free = nil
				if n := len(got.Lanes); n > got.Share {
					free = laneIDs(got.Lanes[got.Share:])
				}
				mu.Lock()
				for _, l := range got.Lanes {
					h, who := hold{l.ID, l.Epoch}, name+l.Token
					if was, ok := owner[h]; ok && was != who {
						s.Errorf("lane %d has two owners of epoch %d", l.ID, l.Epoch)
					}
					owner[h] = who
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}
