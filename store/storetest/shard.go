package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skald-go/skald/store"
)

const shards = 16 // in every database of the suite

func shardTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"TakesAll":        (*suite[TTx]).shardTakesAll,
		"Renewal":         (*suite[TTx]).shardRenewal,
		"FairShare":       (*suite[TTx]).shardFairShare,
		"Free":            (*suite[TTx]).shardFree,
		"Leave":           (*suite[TTx]).shardLeave,
		"Wait":            (*suite[TTx]).shardWait,
		"Look":            (*suite[TTx]).shardLook,
		"TakeOver":        (*suite[TTx]).shardTakeOver,
		"NewLife":         (*suite[TTx]).shardNewLife,
		"ManyAtOnce":      (*suite[TTx]).shardManyAtOnce,
		"Progress":        (*suite[TTx]).shardProgress,
		"ProgressOfOne":   (*suite[TTx]).shardProgressOfOne,
		"StaleProgress":   (*suite[TTx]).shardStaleProgress,
		"ManyProgresses":  (*suite[TTx]).shardManyProgresses,
		"CursorOfAll":     (*suite[TTx]).shardCursorOfAll,
		"LostInWholeUnit": (*suite[TTx]).shardLostInWholeUnit,
		"TakenWhileWaits": (*suite[TTx]).shardTakenWhileWaits,
		"Yield":           (*suite[TTx]).shardYield,
		"YieldToNobody":   (*suite[TTx]).shardYieldToNobody,
		"YieldToWaiting":  (*suite[TTx]).shardYieldToWaiting,
	}
}

// lease sends one LeaseRequest with a long TTL, and returns the shards.
func (s *suite[TTx]) lease(d store.Driver[TTx], owner, session string) []store.Shard {
	s.Helper()
	return s.ask(d, store.LeaseRequest{Owner: owner, Session: session, TTL: time.Hour}).Shards
}

func (s *suite[TTx]) ask(d store.Driver[TTx], ask store.LeaseRequest) store.Leased {
	s.Helper()
	got, err := d.Lease(s.Context(), ask)
	s.ok(err, "lease")
	slices.SortFunc(got.Shards, func(a, b store.Shard) int { return a.ID - b.ID })
	return got
}

func shardIDs(ls []store.Shard) (out []int) {
	for _, l := range ls {
		out = append(out, l.ID)
	}
	return out
}

// progressOf returns a Progress for the shard l, in the name of the owner of l.
func progressOf(l store.Shard) store.Progress {
	return store.Progress{Shard: l.ID, Epoch: l.Epoch, Token: l.Token}
}

func progress(p store.Progress) store.Effect { return store.Effect{Shard: &p} }

func (s *suite[TTx]) shardTakesAll() {
	got := s.ask(s.d, store.LeaseRequest{Owner: "one", Session: "1", TTL: time.Hour})
	if len(got.Shards) != shards || got.Share != shards || got.Sessions != 1 {
		s.Fatalf("the only relay has %d shards, a share of %d, of %d lives", len(got.Shards), got.Share,
			got.Sessions)
	}
	next, tokens := 0, map[string]bool{}
	slices.SortFunc(got.Shards, func(a, b store.Shard) int { return a.First - b.First })
	for _, l := range got.Shards {
		if l.First != next || l.Last < l.First {
			s.Errorf("shard %d is %d to %d, want it to begin at %d", l.ID, l.First, l.Last, next)
		}
		if l.Epoch < 1 || l.Token == "" || l.Cursor != (store.Cursor{}) || l.Incarnation != "" {
			s.Errorf("a new shard is %+v", l)
		}
		next, tokens[l.Token] = l.Last+1, true
	}
	if next != store.Buckets {
		s.Errorf("the shards end at %d", next)
	}
}

func (s *suite[TTx]) shardRenewal() {
	first := s.lease(s.d, "one", "1")
	for range 3 {
		if again := s.lease(s.db.Driver(s), "one", "1"); !slices.Equal(again, first) {
			s.Fatalf("a renewal gives %+v, it was %+v", again, first)
		}
	}
}

// settle lets each owner send a LeaseRequest in turn, until nothing changes. Each request releases the shards
// above the share that the previous request returned.
func (s *suite[TTx]) settle(owners []string) map[string][]store.Shard {
	held := map[string]store.Leased{}
	s.waitUntil("every relay has its share", func() bool {
		quiet := true
		for _, o := range owners {
			was := held[o]
			ask := store.LeaseRequest{Owner: o, Session: "1", TTL: time.Hour}
			if n := len(was.Shards); n > was.Share {
				ask.Release = shardIDs(was.Shards[was.Share:])
			}
			held[o] = s.ask(s.d, ask)
			if n := len(held[o].Shards); n > held[o].Share && n > len(was.Shards) {
				s.Fatalf("a relay takes %d shards, its share is %d", n, held[o].Share)
			}
			quiet = quiet && ask.Release == nil && len(held[o].Shards) <= held[o].Share &&
				slices.Equal(was.Shards, held[o].Shards) && held[o].Sessions == min(len(owners), shards)
		}
		return quiet
	})
	out := map[string][]store.Shard{}
	for o, got := range held {
		out[o] = got.Shards
	}
	return out
}

func (s *suite[TTx]) shardFairShare() {
	var owners []string
	for n := 1; n <= shards+3; n++ {
		owners = append(owners, fmt.Sprintf("relay-%c", 'z'-n))
		if n > 5 && n < shards-1 {
			continue
		}
		taken, most, least := map[int]bool{}, 0, shards
		for _, ls := range s.settle(owners) {
			most, least = max(most, len(ls)), min(least, len(ls))
			for _, l := range ls {
				taken[l.ID] = true
			}
		}
		if len(taken) != shards {
			s.Fatalf("with %d relays %d shards have an owner", n, len(taken))
		}
		if n <= shards && least < 1 || most > (shards+n-1)/n {
			s.Fatalf("with %d relays one has %d shards, another %d", n, least, most)
		}
	}
}

func (s *suite[TTx]) shardFree() {
	was := s.lease(s.d, "one", "1")
	s.apply(progress(func() store.Progress { p := progressOf(was[3]); p.Incarnation = new("b"); return p }()))
	left := s.ask(s.d, store.LeaseRequest{Owner: "one", Session: "1", TTL: time.Hour,
		Release: []int{was[3].ID, was[5].ID}}).Shards
	if len(left) != shards-2 || slices.Contains(shardIDs(left), was[3].ID) ||
		slices.Contains(shardIDs(left), was[5].ID) {
		s.Fatalf("after two were given back %v are left", shardIDs(left))
	}
	s.applied([]bool{false}, progress(progressOf(was[3])))
	other := s.ask(s.d, store.LeaseRequest{Owner: "two", Session: "1", TTL: time.Hour})
	if want := []int{was[3].ID, was[5].ID}; !slices.Equal(shardIDs(other.Shards), want) ||
		other.Sessions != 2 {
		s.Fatalf("another relay takes %v of %v, with %d lives", shardIDs(other.Shards), want, other.Sessions)
	}
	if l := other.Shards[0]; l.Epoch <= was[3].Epoch || l.Token == was[3].Token || l.Incarnation != "b" {
		s.Errorf("the shard goes from %+v to %+v", was[3], l)
	}
	// A relay cannot release another relay's shard.
	s.ask(s.d, store.LeaseRequest{Owner: "one", Session: "1", TTL: time.Hour,
		Release: shardIDs(other.Shards)})
	s.apply(progress(progressOf(other.Shards[0])), progress(progressOf(other.Shards[1])))
}

func (s *suite[TTx]) shardLeave() {
	was := s.lease(s.d, "one", "1")
	if got := s.ask(s.d, store.LeaseRequest{Owner: "one", Session: "1", TTL: time.Hour,
		Leave: true}); len(got.Shards) != 0 {
		s.Fatalf("a relay that left has %v", shardIDs(got.Shards))
	}
	s.applied([]bool{false}, progress(progressOf(was[0])))
	got := s.ask(s.d, store.LeaseRequest{Owner: "two", Session: "1", TTL: time.Hour})
	if len(got.Shards) != shards || got.Sessions != 1 || got.Share != shards {
		s.Fatalf("behind one that left there are %d shards, a share of %d, %d lives", len(got.Shards),
			got.Share, got.Sessions)
	}
	// A relay that leaves takes nothing from another session of its name.
	s.ask(s.d, store.LeaseRequest{Owner: "one", Session: "1", Leave: true})
	s.apply(progress(progressOf(got.Shards[0])))
}

// takenOver fails the test unless a shard has a new owner, epoch and token, and its old position.
func (s *suite[TTx]) takenOver(was, is store.Shard, c store.Cursor) {
	s.Helper()
	if is.Epoch <= was.Epoch || is.Token == was.Token || is.Token == "" {
		s.Fatalf("shard %d goes from epoch %d to %d", is.ID, was.Epoch, is.Epoch)
	}
	if is.Cursor != c || is.Incarnation != "b7" {
		s.Fatalf("shard %d has come to %+v of %q, want %+v", is.ID, is.Cursor, is.Incarnation, c)
	}
	s.applied([]bool{false, true}, progress(progressOf(was)), progress(progressOf(is)))
}

// advance stores a cursor and an incarnation.
func (s *suite[TTx]) advance(l store.Shard) store.Cursor {
	s.Helper()
	s.insert(message("a", 1))
	c := store.Cursor{Base: s.tick(""), Seq: 1}
	p := progressOf(l)
	p.Cursor, p.Incarnation = &c, new("b7")
	s.apply(progress(p))
	return c
}

// shardWait checks that with as many relays as shards another relay waits, is counted separately, and
// replaces the first one that leaves.
func (s *suite[TTx]) shardWait() {
	owners := make([]string, shards)
	for i := range owners {
		owners[i] = fmt.Sprintf("relay-%02d", i)
	}
	s.settle(owners)
	long := func(owner string) store.Leased {
		return s.ask(s.d, store.LeaseRequest{Owner: owner, Session: "1", TTL: 500 * time.Millisecond,
			Wait: time.Hour})
	}
	for n, owner := range []string{"a", "z"} {
		if got := long(owner); len(got.Shards) != 0 || got.Share != 0 || got.Sessions != shards ||
			got.Waiting != n+1 {
			s.Fatalf("waiting after %d relays, %q receives %+v", shards, owner, got)
		}
	}
	if got := s.ask(s.d, store.LeaseRequest{Owner: owners[0], Session: "1",
		TTL: time.Hour}); len(got.Shards) != 1 ||
		got.Share != 1 || got.Waiting != 2 {
		s.Fatalf("with two waiting relays, a working one receives %+v", got)
	}
	s.ask(s.d, store.LeaseRequest{Owner: owners[3], Session: "1", Leave: true})
	if got := long("z"); len(got.Shards) != 1 || got.Share != 1 || got.Sessions != shards ||
		got.Waiting != 1 {
		s.Fatalf("the first waiting relay after one left receives %+v", got)
	}
	// It counts for its TTL now, not for the longer time of a waiting relay.
	s.waitUntil("the other waiting relay has a shard", func() bool { return len(long("a").Shards) == 1 })
	s.waitUntil("waiting relays are deleted after their TTL", func() bool {
		s.ask(s.d, store.LeaseRequest{Owner: "b", Session: "1", TTL: time.Millisecond})
		return s.ask(s.d, store.LeaseRequest{Owner: owners[0], Session: "1", TTL: time.Hour}).Waiting == 0
	})
}

// shardLook checks that a lease that looks for rows returns the same tick as Snapshot.
func (s *suite[TTx]) shardLook() {
	look := func(from string) string {
		s.Helper()
		got := s.ask(s.d, store.LeaseRequest{Owner: "one", Session: "1", TTL: time.Hour, SnapshotBase: &from})
		if len(got.Shards) != shards {
			s.Errorf("with a look there are %d shards", len(got.Shards))
		}
		return got.Tip
	}
	if tip := look(""); tip != "" {
		s.Fatalf("in an empty outbox a look finds %q", tip)
	}
	s.insert(message("a", 1))
	one := look("")
	if page, err := s.d.Pull(s.Context(), store.Window{Tip: one}, 10); err != nil || len(page.Rows) != 1 ||
		!page.Done {
		s.Fatalf("the window that a look opened has %+v, %v", page, err)
	}
	if again := look(one); again != one {
		s.Fatalf("nothing was written since %q, and a look finds %q", one, again)
	}
	if _, err := s.d.Lease(s.Context(),
		store.LeaseRequest{Owner: "one", Session: "1",
			SnapshotBase: new("99999-nobody")}); !errors.Is(err, store.ErrMoved) {
		s.Errorf("a look from a tick that is not there: %v", err)
	}
}

func (s *suite[TTx]) shardTakeOver() {
	was := s.ask(s.d, store.LeaseRequest{Owner: "one", Session: "1", TTL: time.Hour}).Shards
	c := s.advance(was[0])
	if got := s.ask(s.d, store.LeaseRequest{Owner: "two", Session: "1",
		TTL: time.Hour}).Shards; len(got) != 0 {
		s.Fatalf("%v are taken from one that lives", shardIDs(got))
	}
	was = s.ask(s.d, store.LeaseRequest{Owner: "one", Session: "1", TTL: time.Millisecond}).Shards
	var is []store.Shard
	s.waitUntil("the shards of a silent relay are taken over", func() bool {
		got := s.ask(s.db.Driver(s), store.LeaseRequest{Owner: "two", Session: "1", TTL: time.Hour})
		is = got.Shards
		return len(is) == shards && got.Sessions == 1
	})
	s.takenOver(was[0], is[0], c)
	if got := s.ask(s.d, store.LeaseRequest{Owner: "one", Session: "1",
		TTL: time.Hour}); len(got.Shards) != 0 ||
		got.Sessions != 2 {
		s.Fatalf("one that wakes holds %v of %d lives", shardIDs(got.Shards), got.Sessions)
	}
}

func (s *suite[TTx]) shardNewLife() {
	was := s.lease(s.d, "one", "1")
	c := s.advance(was[0])
	got := s.ask(s.db.Driver(s), store.LeaseRequest{Owner: "one", Session: "2", TTL: time.Hour})
	if len(got.Shards) != shards || got.Sessions != 1 {
		s.Fatalf("a new life of the owner holds %d shards, of %d lives", len(got.Shards), got.Sessions)
	}
	s.takenOver(was[0], got.Shards[0], c)
	// The end of the former session takes nothing from its successor.
	s.ask(s.d, store.LeaseRequest{Owner: "one", Session: "1", Leave: true})
	s.apply(progress(progressOf(got.Shards[0])))
	if other := s.ask(s.d, store.LeaseRequest{Owner: "two", Session: "1",
		TTL: time.Hour}); len(other.Shards) != 0 ||
		other.Sessions != 2 {
		s.Fatalf("after the former life left another relay holds %v of %d lives", shardIDs(other.Shards),
			other.Sessions)
	}
	if again := s.lease(s.d, "one", "2"); !slices.Equal(shardIDs(again), shardIDs(got.Shards)) ||
		again[0].Epoch != got.Shards[0].Epoch {
		s.Fatalf("after the former life left its successor holds %v", shardIDs(again))
	}
}

// shardManyAtOnce checks that each owner of a shard has its own epoch.
func (s *suite[TTx]) shardManyAtOnce() {
	type hold struct {
		shard int
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
				got, err := d.Lease(s.Context(), store.LeaseRequest{Owner: name,
					Session: fmt.Sprint(turn / 4),
					TTL:     time.Hour, Release: free})
				if err != nil && !d.Outage(err) {
					s.Errorf("lease: %v", err)
				}
				free = nil
				if n := len(got.Shards); n > got.Share {
					free = shardIDs(got.Shards[got.Share:])
				}
				mu.Lock()
				for _, l := range got.Shards {
					h, who := hold{l.ID, l.Epoch}, name+l.Token
					if was, ok := owner[h]; ok && was != who {
						s.Errorf("shard %d has two owners of epoch %d", l.ID, l.Epoch)
					}
					owner[h] = who
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}
