package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/backoff"
)

const (
	// giveBackAfter is the time after which a relay gives its shards to other relays, if its broker does not
	// answer.
	giveBackAfter = 10 * time.Second
	// unansweredMost is the time after which the relay reports its broker as away, if calls get no answer.
	unansweredMost = 2 * time.Second
	// probeEach is the time between two probes of a broker that does not answer.
	probeEach = time.Second
	// distrustMost limits the time for which a relay refuses shards because its broker answers probes but
	// acknowledges no row.
	distrustMost = 10 * time.Minute
)

// contact records when a relay's broker answered, and when it did not. Only the goroutine of Run or Step uses
// it. A relay without a reachable broker yields (store.LeaseRequest.Yield). Relays with a reachable broker
// take its shards, so that one process does not delay all rows.
//
// An acknowledged row proves that the broker accepts rows. An answered probe proves less. A relay trusts an
// answered probe only if no call failed lately. If the relay then took shards and still published nothing, it
// waits longer the next time before it trusts a probe.
type contact struct {
	since         time.Time // of the first consecutive failure; zero if it answers
	open          time.Time // the start of the time in which calls got no answer
	distrustUntil time.Time // answered probes are ignored until then
	proved        bool      // it has answered at least once
	yields        bool
	fruitless     int // how often the relay yielded since its last acknowledged row

	asking bool      // a probe is in progress
	askAt  time.Time // when the next probe is due
}

// noteAnswer records the broker's answer to a call of n rows. Rows that the broker refused or held back do
// not count as an outage.
func (r *Relay) noteAnswer(v verdict, n int) {
	now, c := r.o.Now(), &r.contact
	switch {
	case v.all != nil:
		c.open, c.distrustUntil = now, later(c.distrustUntil, now.Add(2*r.o.RetryMost))
		r.noteNoAnswer(v.all)
	case v.rows == nil || len(v.rows.Failed)+len(v.rows.Refused) < n:
		c.open, c.distrustUntil, c.fruitless = now, time.Time{}, 0
		r.noteContact()
	case len(v.rows.Refused) > 0 && c.since.IsZero():
		c.open = now
	}
}

// noteNoAnswer records that the broker did not answer.
func (r *Relay) noteNoAnswer(err error) {
	if c := &r.contact; c.since.IsZero() {
		c.since = r.o.Now()
	}
	r.noteBroker(err)
}

// noteContact records that the broker answers.
func (r *Relay) noteContact() {
	c := &r.contact
	if c.yields || !c.proved {
		r.leaseAt = r.o.Now() // for the shards that other relays keep for it
	}
	c.since, c.proved, c.yields = time.Time{}, true, false
	r.noteBroker(nil)
}

// brokerSilence returns the time for which the broker has not answered; 0 if it answers.
func (r *Relay) brokerSilence(now time.Time) time.Duration {
	if r.contact.since.IsZero() && !r.contact.proved {
		return 1
	}
	since := r.contact.since
	if r.inFlight > 0 && now.Sub(r.contact.open) > unansweredMost &&
		(since.IsZero() || r.contact.open.Before(since)) {
		since = r.contact.open
	}
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since), 1)
}

// yields reports whether the relay gives its shards to other relays with a reachable broker.
func (r *Relay) yields(away time.Duration) bool {
	c := &r.contact
	if c.yields || away < r.o.giveBack {
		return c.yields || !c.proved
	}
	now := r.o.Now()
	c.yields, c.since = true, now.Add(-away)
	c.fruitless++
	c.distrustUntil = later(c.distrustUntil, now.Add(backoff.After(c.fruitless, r.o.giveBack, distrustMost)))
	r.o.Logger.Warn("relay: the broker does not answer: other relays take its shards if their broker does",
		"owner", r.o.Owner, "shards", len(r.shards), "since", away.Round(time.Second))
	return true
}

// probe sends a probe to the broker if it does not answer, or has not answered yet.
func (r *Relay) probe(context.Context) (busy bool, err error) {
	now, c := r.o.Now(), &r.contact
	if c.asking || now.Before(c.askAt) || c.proved && c.since.IsZero() && !c.yields {
		return false, nil
	}
	c.asking, c.askAt = true, now.Add(probeEach)
	r.ping(func(err error) {
		c.asking = false
		switch {
		case err != nil:
			r.noteNoAnswer(fmt.Errorf("probe the broker: %w", err))
		case !r.o.Now().Before(c.distrustUntil):
			r.noteContact()
		}
	})
	return false, nil
}
