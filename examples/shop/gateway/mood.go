package gateway

import (
	"time"

	"github.com/skald-go/skald/examples/shop/mood"
)

// Rates are the probabilities of each mood, per request, from 0 to 1. The zero value is a well-behaved
// gateway.
type Rates struct {
	Slow    float64 // waits up to SlowFor before it starts
	SlowFor time.Duration
	Busy    float64 // answers 503 without starting
	Decline float64 // permanently refuses a charge that is possible
	Fail    float64 // does the request and answers 500
	Hang    float64 // does the request and does not answer for HangFor
	HangFor time.Duration
	Forget  float64 // forgets the key after ForgetAfter, much too early
	// ForgetAfter should be longer than a merchant's request can take: a retry with a forgotten key,
	// without a look-up, charges twice.
	ForgetAfter time.Duration
}

// RatesOf returns a preset: none, some or wild.
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

// The names of moods in Moods.Counts.
const (
	Slow     = "gateway_slow"
	Busy     = "gateway_busy"
	Declined = "gateway_declined"
	Failed   = "gateway_failed_after"
	Hung     = "gateway_hung_after"
	Forgot   = "gateway_forgot_key"
)

// Moods decides at random, by a seed, how the gateway misbehaves, and counts it.
type Moods struct {
	*mood.Dice
	rates Rates
}

// NewMoods returns moods with these rates.
func NewMoods(seed uint64, r Rates) *Moods { return &Moods{mood.New(seed, 0x9a7e), r} }

// slowness returns the delay of this request.
func (m *Moods) slowness() time.Duration { return m.For(Slow, m.rates.Slow, m.rates.SlowFor) }
