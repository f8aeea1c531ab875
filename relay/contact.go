package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/backoff"
)

const (
	// giveBackAfter is how long a broker may not answer before its relay gives its shards to others.
	giveBackAfter = 10 * time.Second
	// hush is how long calls may be unanswered before their relay reports its broker as away.
	hush = 2 * time.Second
	// probeEach is the time between two questions to a broker that does not answer.
	probeEach = time.Second
	// mistrustMost bounds how long a relay refuses shards whose broker answers questions and takes no row.
	mistrustMost = 10 * time.Minute
)

// A contact is what a relay has of its broker: when it answered, and when it did not. It belongs to the
// goroutine of Run or Step. A relay without its broker yields (store.Ask.Yield): its shards go to relays that
// have theirs, so that one process without a broker does not keep the rows of all.
//
// A durable row proves that the broker takes rows. An answered question proves less: a relay believes it only
// if no call has failed lately, and less and less if it took shards and published nothing again.
type contact struct {
	since    time.Time // of the first failure in a row; zero: it answers
	open     time.Time // since when calls are under way without an answer
	mistrust time.Time // until then an answered question proves nothing
	proved   bool      // it has answered once
	yields   bool
	vain     int // how often the relay yielded since its last durable row

	asking bool      // a question is under way
	askAt  time.Time // when the next one is due
}

// heard takes up the broker's answer to a call of n rows. That rows were refused or held back says nothing.
func (r *Relay) heard(v verdict, n int) {
	now, c := r.o.Now(), &r.contact
	switch {
	case v.all != nil:
		c.open, c.mistrust = now, later(c.mistrust, now.Add(2*r.o.RetryMost))
		r.missed(v.all)
	case v.rows == nil || len(v.rows.Failed)+len(v.rows.Refused) < n:
		c.open, c.mistrust, c.vain = now, time.Time{}, 0
		r.answers()
	case len(v.rows.Refused) > 0 && c.since.IsZero():
		c.open = now
	}
}

// missed notes that the broker did not answer.
func (r *Relay) missed(err error) {
	if c := &r.contact; c.since.IsZero() {
		c.since = r.o.Now()
	}
	r.reach(err)
}

// answers notes that the broker does.
func (r *Relay) answers() {
	c := &r.contact
	if c.yields || !c.proved {
		r.leaseAt = r.o.Now() // for the shards that others keep for it
	}
	c.since, c.proved, c.yields = time.Time{}, true, false
	r.reach(nil)
}

// silence is for how long the broker has not answered; 0: it answers.
func (r *Relay) silence(now time.Time) time.Duration {
	if r.contact.since.IsZero() && !r.contact.proved {
		return 1
	}
	since := r.contact.since
	if r.inFlight > 0 && now.Sub(r.contact.open) > hush && (since.IsZero() || r.contact.open.Before(since)) {
		since = r.contact.open
	}
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since), 1)
}

// yields tells whether the relay leaves its shards to others, while there are others whose broker answers.
func (r *Relay) yields(away time.Duration) bool {
	c := &r.contact
	if c.yields || away < r.o.giveBack {
		return c.yields || !c.proved
	}
	now := r.o.Now()
	c.yields, c.since = true, now.Add(-away)
	c.vain++
	c.mistrust = later(c.mistrust, now.Add(backoff.After(c.vain, r.o.giveBack, mistrustMost)))
	r.o.Logger.Warn("relay: the broker does not answer: its shards are for other relays, if their broker does",
		"owner", r.o.Owner, "shards", len(r.shards), "since", away.Round(time.Second))
	return true
}

// probe asks a broker that does not answer, or has not answered yet, whether it does.
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
			r.missed(fmt.Errorf("ask the broker: %w", err))
		case !r.o.Now().Before(c.mistrust):
			r.answers()
		}
	})
	return false, nil
}
