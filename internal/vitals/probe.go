package vitals

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Waits between two requests of a Probe: constant while the server answers, doubled while it fails.
const (
	probeFirst = 500 * time.Millisecond
	probeMost  = 2 * time.Second
)

// Probe checks a server in the background and keeps the last answer. At most one request is in progress. The
// rate is limited: one per 0.5 s, one per 2 s while the server fails. It is safe for concurrent use.
type Probe struct {
	ask     func(context.Context) error
	timeout time.Duration
	now     func() time.Time
	told    chan struct{} // receives after each answer
	report  func(error)   // receives each answer

	mu     sync.Mutex
	asking bool
	next   time.Time // time of the earliest next request
	fails  int       // consecutive
	last   Answer
}

// Answer is the result of a request. The zero value means that there is none yet.
type Answer struct {
	Err   error     // nil if the server is there
	At    time.Time // of this answer
	Since time.Time // of the first consecutive answer of this kind. Zero if no answer was of another kind
}

// NewProbe returns a Probe that calls ask, with timeout for each call. If report is not nil, it receives each
// answer.
func NewProbe(ask func(context.Context) error, timeout time.Duration, now func() time.Time,
	report func(error)) *Probe {
	if report == nil {
		report = func(error) {}
	}
	return &Probe{ask: ask, timeout: timeout, now: now, told: make(chan struct{}, 1), report: report}
}

// Ask starts a request, unless one is in progress or was made a moment ago. It does not wait.
func (p *Probe) Ask(ctx context.Context) {
	if p.begin() {
		go p.run(ctx)
	}
}

// AskNow starts a request like Ask and waits for the answer. It returns false if it started none.
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

// Wait returns the time until Ask starts a request again.
func (p *Probe) Wait() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking {
		return p.timeout
	}
	return max(0, p.next.Sub(p.now()))
}

// Told returns a channel that receives after each answer. It supports one reader.
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
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	err := p.ask(limited)
	if err != nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: no answer in %v", err, p.timeout)
	}
	cancel()
	if ctx.Err() == nil {
		p.report(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asking = false
	if ctx.Err() != nil { // the caller ends; that is no sign of an outage
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
	p.next = now.Add(pause + rand.N(pause/2)) // so that processes do not ask at the same moment
	select {
	case p.told <- struct{}{}:
	default:
	}
}
