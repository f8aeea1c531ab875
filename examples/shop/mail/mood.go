package mail

import (
	"time"

	"github.com/skald-go/skald/examples/shop/mood"
)

// Rates are the probabilities of each mood, per mail, from 0 to 1. The zero value is a well-behaved server.
type Rates struct {
	Slow    float64 // waits up to SlowFor before it starts
	SlowFor time.Duration
	Busy    float64 // answers 451 and does not accept the mail
	Cut     float64 // accepts the mail, and disconnects without an answer
}

// RatesOf returns a preset: none, some or wild.
func RatesOf(name string) (r Rates, ok bool) {
	switch name {
	case "none":
		return Rates{}, true
	case "some":
		return Rates{Slow: 0.02, SlowFor: 10 * time.Millisecond, Busy: 0.01, Cut: 0.02}, true
	case "wild":
		return Rates{Slow: 0.1, SlowFor: 50 * time.Millisecond, Busy: 0.05, Cut: 0.1}, true
	}
	return Rates{}, false
}

// The names of moods in Moods.Counts.
const (
	Slow = "mail_slow"
	Busy = "mail_busy"
	Cut  = "mail_cut_after"
)

// Moods decides at random, by a seed, how the server misbehaves, and counts it.
type Moods struct {
	*mood.Dice
	rates Rates
}

// NewMoods returns moods with these rates.
func NewMoods(seed uint64, r Rates) *Moods { return &Moods{mood.New(seed, 0x3a11), r} }

// slowness returns the delay of this mail.
func (m *Moods) slowness() time.Duration { return m.For(Slow, m.rates.Slow, m.rates.SlowFor) }
