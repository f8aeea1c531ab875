package mail

import (
	"time"

	"github.com/skald-go/skald/examples/shop/mood"
)

// Rates say how likely each mood is, per mail, from 0 to 1. The zero value is a server that does what it is
// asked.
type Rates struct {
	Slow    float64 // it takes up to SlowFor before it begins
	SlowFor time.Duration
	Busy    float64 // it answers 451 and does not take the mail
	Cut     float64 // it takes the mail, and hangs up without an answer
}

// RatesOf is the preset of that name: none, some or wild.
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

// The moods, as Moods.Counts names them.
const (
	Slow = "mail_slow"
	Busy = "mail_busy"
	Cut  = "mail_cut_after"
)

// Moods decide, by a seed, how a server is at each mail, and count that.
type Moods struct {
	*mood.Dice
	rates Rates
}

// NewMoods are moods at these rates.
func NewMoods(seed uint64, r Rates) *Moods { return &Moods{mood.New(seed, 0x3a11), r} }

// slowness is how long it takes this time.
func (m *Moods) slowness() time.Duration { return m.For(Slow, m.rates.Slow, m.rates.SlowFor) }
