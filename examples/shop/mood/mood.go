// Package mood makes servers misbehave at random, by a seed.
package mood

import (
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

// Dice decides when a server misbehaves, and counts it.
type Dice struct {
	mu     sync.Mutex
	rng    *rand.Rand
	counts map[string]int64
}

// New returns dice with a seed; each server has its own stream.
func New(seed, stream uint64) *Dice {
	return &Dice{rng: rand.New(rand.NewPCG(seed, stream)), counts: map[string]int64{}}
}

// Counts returns how often each mood occurred.
func (d *Dice) Counts() map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.counts)
}

// Is rolls the dice for one mood, with a rate from 0 to 1.
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

// For rolls the dice and returns the duration of the mood, less than most; 0 if it does not occur.
func (d *Dice) For(mood string, rate float64, most time.Duration) time.Duration {
	if !d.Is(mood, rate) {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.rng.Int64N(int64(max(1, most))))
}
