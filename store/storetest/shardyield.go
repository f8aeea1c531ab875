package storetest

import (
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// awayRequest returns the request of a relay whose broker has not answered for the duration d.
func awayRequest(owner string, d time.Duration, yield bool, free ...int) store.LeaseRequest {
	return store.LeaseRequest{Owner: owner, Session: "1", TTL: time.Hour, Wait: time.Hour, BrokerAway: d,
		Yield:   yield,
		Release: free}
}

// shardYield checks that a relay with an unreachable broker can give its shards to a relay with a reachable
// broker, and gets its share again later. The relay owns its shards until it releases them.
func (s *suite[TTx]) shardYield() {
	cut := s.ask(s.d, awayRequest("cut", time.Second, true))
	if len(cut.Shards) != shards || cut.Share != shards {
		s.Fatalf("alone, a relay without a broker has %d shards, a share of %d", len(cut.Shards), cut.Share)
	}
	if got := s.ask(s.d, awayRequest("well", 0, false)); len(got.Shards) != 0 || got.Share != shards ||
		got.Sessions != 1 {
		s.Fatalf("before the other gave any back the healthy one has %d shards, a share of %d, of %d relays",
			len(got.Shards), got.Share, got.Sessions)
	}
	again := s.ask(s.d, awayRequest("cut", time.Second, true))
	if again.Share != 0 || len(again.Shards) != shards {
		s.Fatalf("next to a healthy one it has %d shards, a share of %d", len(again.Shards), again.Share)
	}
	s.apply(progress(progressOf(again.Shards[0]))) // it still owns them
	again = s.ask(s.d, awayRequest("cut", time.Second, true, shardIDs(again.Shards)...))
	if again.Share != 0 || len(again.Shards) != 0 {
		s.Fatalf("it has given all back, and has %d shards, a share of %d", len(again.Shards), again.Share)
	}
	b := s.backlog()
	if len(b.Relays) != 1 || b.Relays[0].Owner != "cut" || b.Relays[0].Shards != 0 ||
		b.Relays[0].BrokerAway < time.Second {
		s.Errorf("the backlog names %+v", b.Relays)
	}
	if got := s.ask(s.d, awayRequest("well", 0, false)); len(got.Shards) != shards {
		s.Fatalf("the healthy one has %d shards", len(got.Shards))
	}
	if got := s.ask(s.d, awayRequest("cut", 0, false)); got.Share != shards/2 || got.Sessions != 2 {
		s.Fatalf("its broker answers again, and its share is %d, of %d relays", got.Share, got.Sessions)
	}
}

// shardYieldToNobody checks that every relay has its share while no relay's broker answers.
func (s *suite[TTx]) shardYieldToNobody() {
	held := s.settle([]string{"a", "b"})
	for range 3 {
		for _, owner := range []string{"a", "b"} {
			got := s.ask(s.d, awayRequest(owner, time.Second, false))
			if owner == "b" {
				got = s.ask(s.d, awayRequest(owner, time.Second, true)) // a's broker does not answer now
			}
			if len(got.Shards) != len(held[owner]) || got.Share != shards/2 || got.Sessions != 2 {
				s.Fatalf("%s has %d shards, a share of %d, of %d relays", owner, len(got.Shards), got.Share,
					got.Sessions)
			}
		}
	}
	for _, r := range s.backlog().Relays {
		if r.Shards != shards/2 || r.BrokerAway < time.Second {
			s.Errorf("the backlog names %+v", r)
		}
	}
}

// shardYieldToWaiting checks that a waiting relay takes shards that are released.
func (s *suite[TTx]) shardYieldToWaiting() {
	var owners []string
	for i := range shards {
		owners = append(owners, fmt.Sprintf("relay-%02d", i))
	}
	held := s.settle(owners)
	if got := s.ask(s.d, awayRequest("waits", 0, false)); len(got.Shards) != 0 || got.Waiting != 1 {
		s.Fatalf("one too many has %d shards, %d wait", len(got.Shards), got.Waiting)
	}
	got := s.ask(s.d, awayRequest(owners[3], time.Second, true))
	if got.Share != 0 {
		s.Fatalf("next to one that waits, its share is %d", got.Share)
	}
	s.ask(s.d, awayRequest(owners[3], time.Second, true, shardIDs(held[owners[3]])...))
	if got := s.ask(s.d, awayRequest("waits", 0, false)); len(got.Shards) != 1 {
		s.Fatalf("the one that waited has %d shards", len(got.Shards))
	}
}
