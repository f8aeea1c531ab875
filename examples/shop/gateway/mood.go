package gateway

import (
	"time"

	"github.com/skald-go/skald/examples/shop/mood"
)

// Rates say how likely each mood is, per request, from 0 to 1. The zero value is a gateway that does what it
// is asked.
type Rates struct {
	Slow    float64 // it takes up to SlowFor before it begins
	SlowFor time.Duration
	Busy    float64 // it answers 503 and does not begin
	Decline float64 // it refuses a charge that could be paid, for good
	Fail    float64 // it does what is asked and answers 500
	Hang    float64 // it does what is asked and answers nothing for HangFor
	HangFor time.Duration
	Forget  float64 // it forgets the key after ForgetAfter, long before it should
	// ForgetAfter should be longer than a merchant's request can be under way: who sends one under a key that
	// was forgotten, and has not looked it up, pays twice.
	ForgetAfter time.Duration
}

// RatesOf is the preset of that name: none, some or wild.
func RatesOf(name string) (r Rates, ok bool) {
	switch name {
	case "none":
		return Rates{}, true
	case "some":
		return Rates{Slow: 0.02, SlowFor: 10 * time.Millisecond, Busy: 0.01, Fail: 0.01}, true
	case "wild":
		return Rates{Slow: 0.1, SlowFor: 50 * time.Millisecond, Busy: 0.05, Decline: 0.03, Fail: 0.08,
			Hang: 0.03, HangFor: 5 * time.Second,
			Forget: 0.1, ForgetAfter: 5 * time.Second}, true
	}
	return Rates{}, false
}

// The moods, as Moods.Counts names them.
const (
	Slow     = "gateway_slow"
	Busy     = "gateway_busy"
	Declined = "gateway_declined"
	Failed   = "gateway_failed_after"
	Hung     = "gateway_hung_after"
	Forgot   = "gateway_forgot_key"
)

// Moods decide, by a seed, how a gateway is at each request, and count that.
type Moods struct {
	*mood.Dice
	rates Rates
}

// NewMoods are moods at these rates.
func NewMoods(seed uint64, r Rates) *Moods { return &Moods{mood.New(seed, 0x9a7e), r} }

// slowness is how long it takes this time.
func (m *Moods) slowness() time.Duration { return m.For(Slow, m.rates.Slow, m.rates.SlowFor) }
