// This file decides whether the broker is reachable, and whether other relays should take the shards.

package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/backoff"
)

const (
	// giveBackAfter is the duration of a broker outage after which a relay yields its shards to other relays.
	giveBackAfter = 10 * time.Second
	// unansweredMost is the time without an answer to calls after which the relay reports its broker as away.
	unansweredMost = 2 * time.Second
	// probeEach is the interval of probes while the broker does not answer.
	probeEach = time.Second
	// distrustMost limits the time for which a relay ignores answered probes, because its broker acknowledges
	// no rows.
	distrustMost = 10 * time.Minute
)

// contact has the state of a relay's contact to its broker. Only the goroutine of Run or Step uses it. A
// relay without a reachable broker yields its shards (store.LeaseRequest.Yield). Relays with a reachable
// broker take them, so that one process does not delay all rows.
//
// An acknowledged row proves that the broker accepts rows. An answered probe proves less, so a relay trusts a
// probe only if no call failed recently. If the relay then takes shards and still publishes no row, it waits
// longer before it trusts the next probe.
type contact struct {
	since         time.Time // the first failure in a row; zero if the broker answers
	open          time.Time // the start of the time in which calls got no answer
	distrustUntil time.Time // answered probes are ignored until then
	proved        bool      // the broker has answered at least once
	yields        bool      // other relays may take the shards
	fruitless     int       // the number of times that the relay yielded since its last acknowledged row

	asking bool      // a probe is in progress
	askAt  time.Time // when the next probe is due
}

// noteAnswer records the broker's answer to a call of n rows. If the broker refused rows or held them back,
// this is not an outage.
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
		r.leaseAt = r.o.Now() // to take shards immediately
	}
	c.since, c.proved, c.yields = time.Time{}, true, false
	r.noteBroker(nil)
}

// brokerSilence returns the time since the broker's last answer, or 0 if the broker answers.
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

// yields returns true if other relays with a reachable broker may take the shards. This relay's broker has
// not answered for the duration silence.
func (r *Relay) yields(silence time.Duration) bool {
	c := &r.contact
	if c.yields || silence < r.o.giveBack {
		return c.yields || !c.proved
	}
	now := r.o.Now()
	c.yields, c.since = true, now.Add(-silence)
	c.fruitless++
	c.distrustUntil = later(c.distrustUntil, now.Add(backoff.After(c.fruitless, r.o.giveBack, distrustMost)))
	r.o.Logger.Warn("relay: the broker does not answer: other relays take its shards if their broker does",
		"owner", r.o.Owner, "shards", len(r.shards), "since", silence.Round(time.Second))
	return true
}

// probe sends a request to the broker if the broker does not answer, or has not answered yet.
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
