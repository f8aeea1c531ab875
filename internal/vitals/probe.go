package vitals

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// The waits between two questions of a Probe: the same after an answer, doubled while the server fails.
const (
	probeFirst = 500 * time.Millisecond
	probeMost  = 2 * time.Second
)

// A Probe asks a server in the background whether it is there, and keeps the last answer. One question is in
// progress at most, and the rate is bounded: one in 0.5 s, one in 2 s while the server fails. It is safe for
// concurrent use.
type Probe struct {
	ask     func(context.Context) error
	timeout time.Duration
	now     func() time.Time
	told    chan struct{}
	tell    func(error) // each answer

	mu     sync.Mutex
	asking bool
	next   time.Time // not before
	fails  int       // in a row
	last   Answer
}

// An Answer is what a Probe found. The zero value: nothing yet.
type Answer struct {
	Err   error     // nil: the server is there
	At    time.Time // of this answer
	Since time.Time // of the first such answer in a row. Zero: none was another
}

// NewProbe returns a Probe that calls ask, with timeout for each call. Tell, if not nil, gets each answer.
func NewProbe(ask func(context.Context) error, timeout time.Duration, now func() time.Time,
	tell func(error)) *Probe {
	if tell == nil {
		tell = func(error) {}
	}
	return &Probe{ask: ask, timeout: timeout, now: now, told: make(chan struct{}, 1), tell: tell}
}

// Ask begins to ask, unless that is in progress or was done a moment ago. It does not wait.
func (p *Probe) Ask(ctx context.Context) {
	if p.begin() {
		go p.run(ctx)
	}
}

// AskNow asks as Ask does, and waits for the answer. Returns false if it did not ask.
func (p *Probe) AskNow(ctx context.Context) (asked bool) {
	if asked = p.begin(); asked {
		p.run(ctx)
	}
	return asked
}

// Last returns the last answer.
func (p *Probe) Last() Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Wait returns how long Ask would do nothing.
func (p *Probe) Wait() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking {
		return p.timeout
	}
	return max(0, p.next.Sub(p.now()))
}

// Told receives after each answer. It has one reader.
func (p *Probe) Told() <-chan struct{} { return p.told }

func (p *Probe) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking || p.now().Before(p.next) {
		return false
	}
	p.asking = true
	return true
}

func (p *Probe) run(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, p.timeout)
	err := p.ask(asked)
	if err != nil && errors.Is(asked.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: no answer in %v", err, p.timeout)
	}
	cancel()
	if ctx.Err() == nil {
		p.tell(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asking = false
	if ctx.Err() != nil { // the caller ends: that says nothing of the server
		return
	}
	now := p.now()
	if (err == nil) != (p.last.Err == nil) {
		p.last.Since = now
	}
	p.last.Err, p.last.At = err, now
	if p.fails++; err == nil {
		p.fails = 0
	}
	pause := min(probeFirst<<min(max(0, p.fails-1), 10), probeMost)
	p.next = now.Add(pause + rand.N(pause/2)) // not all processes at the same moment
	select {
	case p.told <- struct{}{}:
	default:
	}
}
