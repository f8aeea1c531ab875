// Package mood lets what a shop calls misbehave by chance, as a seed has it.
package mood

import (
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

// Dice decide when a server is in a mood, and count that.
type Dice struct {
	mu     sync.Mutex
	rng    *rand.Rand
	counts map[string]int64
}

// New are dice by a seed; those of each server have a stream of their own.
func New(seed, stream uint64) *Dice {
	return &Dice{rng: rand.New(rand.NewPCG(seed, stream)), counts: map[string]int64{}}
}

// Counts is how often each mood came.
func (d *Dice) Counts() map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.counts)
}

// Is rolls the dice for one mood, whose rate is from 0 to 1.
func (d *Dice) Is(mood string, rate float64) bool {
	if rate <= 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rng.Float64() >= rate {
		return false
	}
	d.counts[mood]++
	return true
}

// For is how long a mood lasts this time, less than most; 0: it has not come.
func (d *Dice) For(mood string, rate float64, most time.Duration) time.Duration {
	if !d.Is(mood, rate) {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.rng.Int64N(int64(max(1, most))))
}
