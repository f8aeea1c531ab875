package vitals

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Pauses between two requests of a Probe: probeFirst while the server answers, and doubled after each
// failure, up to probeMost.
const (
	probeFirst = 500 * time.Millisecond
	probeMost  = 2 * time.Second
)

// Probe checks in the background whether a server answers, and stores the last answer. At most one request
// is in progress. There is at most one request each 0.5 s, and one each 2 s while the server fails. Probe is
// safe for concurrent use.
type Probe struct {
	ask     func(context.Context) error
	timeout time.Duration
	now     func() time.Time
	told    chan struct{} // receives after each answer
	report  func(error)   // receives each answer

	mu     sync.Mutex
	asking bool
	next   time.Time // time of the earliest next request
	fails  int       // the number of consecutive failures
	last   Answer
}

// Answer is the result of a request. The zero Answer means that no request has ended yet.
type Answer struct {
	Err   error     // nil if the server answered
	At    time.Time // the time of this answer
	Since time.Time // the time of the last change between success and failure; zero without a change
}

// NewProbe returns a Probe that calls the function request, with a timeout for each call. If report is not
// nil, the Probe calls it with the result of each request.
func NewProbe(request func(context.Context) error, timeout time.Duration, now func() time.Time,
	report func(error)) *Probe {
	if report == nil {
		report = func(error) {}
	}
	return &Probe{ask: request, timeout: timeout, now: now, told: make(chan struct{}, 1), report: report}
}

// Ask starts a request, unless a request is in progress or the last one was a moment ago. It does not wait
// for the answer.
func (p *Probe) Ask(ctx context.Context) {
	if p.begin() {
		go p.run(ctx)
	}
}

// AskNow starts a request like Ask, and waits for the answer. It returns false if it did not start a request.
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

// Wait returns the time until Ask can start the next request.
func (p *Probe) Wait() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking {
		return p.timeout
	}
	return max(0, p.next.Sub(p.now()))
}

// Told returns a channel that receives a value after each answer. Only one goroutine may read from it.
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
	if ctx.Err() != nil { // the caller canceled the request, so the error does not mean an outage
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
	p.next = now.Add(pause + rand.N(pause/2)) // random, so that processes do not ask at the same moment
	select {
	case p.told <- struct{}{}:
	default:
	}
}
