package rediscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/backoff"
)

// ErrBypassed is returned by a Guard while it sends no commands.
var ErrBypassed = errors.New("rediscmd: Redis failed or was slow recently, so it is bypassed")

// GuardOptions configure a Guard. The zero value works.
type GuardOptions struct {
	Timeout time.Duration // limit of one call; default 25 ms
	// Rest is how long Redis is bypassed after a call that failed or was too slow. Default 1 s.
	Rest time.Duration
	// Logger logs the begin and end of a bypass, and refused commands. Default slog.Default().
	Logger *slog.Logger
}

// Guard is a Client that never takes longer than its timeout. It abandons calls of a client that ignores
// its context, and treats a panic as a failure. At most 64 calls run at the same time; others wait within
// their timeout. After a failed or slow call it immediately returns ErrBypassed for a while. Then one call
// tests Redis.
type Guard struct {
	client Client
	o      GuardOptions
	turns  chan struct{} // for Do: one for each running call
	sure   chan struct{} // the same for Insist

	mu      sync.Mutex
	until   time.Time // Redis is bypassed until then
	away    bool      // the last call failed
	trying  bool      // one call is testing Redis after the rest
	late    int       // abandoned calls of Do that still run
	calls   int64     // number of calls ever started
	failed  int64     // value of calls at the last failure
	status  GuardStatus
	back    time.Time        // when Redis last came back
	told    bool             // the failure was logged
	say     backoff.LogLimit // log rate for failures
	refused backoff.LogLimit // log rate for refused commands

	undoing bool
	undo    []undo
	wake    chan struct{} // wakes undoAll
}

// GuardStatus counts the calls of a Guard.
type GuardStatus struct {
	Calls       int64 // calls sent
	Failures    int64 // failed and slow calls
	Bypassed    int64 // calls that were not sent
	Unavailable bool  // the last call failed
}

const (
	mostUnderWay = 64 // running calls of Do
	mostInsist   = 16 // running calls of Insist
	mostLate     = 4  // abandoned calls that still run; with more, Do is bypassed

	// leastBelow is the minimum time of an abandoned call, so that a client can finish connecting, which
	// takes longer than a command.
	leastBelow = time.Second
)

// NewGuard returns a guard around c.
func NewGuard(c Client, o *GuardOptions) *Guard {
	var d GuardOptions
	if o != nil {
		d = *o
	}
	d.Timeout, d.Rest = cmp.Or(d.Timeout, 25*time.Millisecond), cmp.Or(d.Rest, time.Second)
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	rarely := backoff.LogLimit{First: 20 * time.Second, Most: 10 * time.Minute}
	return &Guard{client: c, o: d, turns: make(chan struct{}, mostUnderWay),
		sure: make(chan struct{}, mostInsist),
		say:  rarely, refused: rarely, wake: make(chan struct{}, 1)}
}

// Status returns the counts. It may be called at any time.
func (g *Guard) Status() GuardStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.status
	s.Unavailable = g.away
	return s
}

// call is a call of the client in progress.
type call struct {
	commands [][]string
	insists  bool
	undo     [][]string // sent if the result of commands is unknown
	within   time.Duration

	replies []Reply
	err     error
	over    chan struct{} // closed when the call has returned

	number int64
	trial  bool // tests Redis after a rest
	left   bool // its caller has given up
}

// Do sends commands, unless Redis is bypassed. The end of the caller's context does not count as a failure
// of Redis.
func (g *Guard) Do(ctx context.Context, commands [][]string) ([]Reply, error) {
	return g.do(ctx, &call{commands: commands})
}

// Insist is Do, but it also sends while Redis is bypassed.
func (g *Guard) Insist(ctx context.Context, commands [][]string) ([]Reply, error) {
	return g.do(ctx, &call{commands: commands, insists: true})
}

// Take is Do. If the result of commands is unknown, it sends undo as Undo does, after the client's call has
// ended: a client may still be sending commands after the caller has given up.
func (g *Guard) Take(ctx context.Context, commands, undo [][]string, within time.Duration) ([]Reply, error) {
	return g.do(ctx, &call{commands: commands, undo: undo, within: within})
}

func (g *Guard) do(ctx context.Context, c *call) ([]Reply, error) {
	timeout := time.NewTimer(g.o.Timeout)
	defer timeout.Stop()
	turn, err := g.turn(ctx, c, timeout.C)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	c.over = make(chan struct{})
	go g.run(context.WithoutCancel(ctx), c, turn)
	select {
	case <-c.over:
	case <-ctx.Done():
		if g.leave(c) {
			g.untried(c)
			return nil, context.Cause(ctx)
		}
	case <-timeout.C:
		if g.leave(c) {
			// it waited for a turn, so Redis had too little time
			if time.Since(begun) < g.o.Timeout/2 {
				g.untried(c)
				return nil, ErrBypassed
			}
			err := fmt.Errorf("rediscmd: no answer within %v", g.o.Timeout)
			g.note(ctx, c, nil, err)
			return nil, err
		}
	}
	g.note(ctx, c, c.replies, c.err)
	return c.replies, c.err
}

// untried ends c's test of Redis without a result; another call may test.
func (g *Guard) untried(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying = g.trying && !c.trial
}

// run is the goroutine of a call.
func (g *Guard) run(ctx context.Context, c *call, turn chan struct{}) {
	defer func() { <-turn }()
	bound, cancel := context.WithTimeout(ctx, max(g.o.Timeout, leastBelow))
	defer cancel()
	c.replies, c.err = caught(bound, g.client, c.commands)
	if left := g.returned(c); left || c.err != nil {
		g.addUndo(c.undo, c.within, true)
	}
}

// caught calls do and returns a panic as an error: some clients panic on replies that they cannot parse.
func caught(ctx context.Context, c Client, commands [][]string) (replies []Reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			replies, err = nil, fmt.Errorf("rediscmd: the client panicked: %v", p)
		}
	}()
	return do(ctx, c, commands)
}

// turn waits until c may start. Calls of Insist wait only for each other.
func (g *Guard) turn(ctx context.Context, c *call, timeout <-chan time.Time) (chan struct{}, error) {
	turn := g.turns
	if c.insists {
		turn = g.sure
	} else if !g.open() {
		return nil, ErrBypassed
	}
	select {
	case turn <- struct{}{}:
	default:
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timeout:
			g.mu.Lock()
			g.status.Bypassed++
			g.mu.Unlock()
			return nil, ErrBypassed
		}
	}
	if !g.enter(c) {
		<-turn
		return nil, ErrBypassed
	}
	return turn, nil
}

// closed reports whether Redis is bypassed. The caller holds the lock.
func (g *Guard) closed() bool {
	return g.late >= mostLate || g.away && (g.trying || time.Now().Before(g.until))
}

func (g *Guard) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed() {
		g.status.Bypassed++
		return false
	}
	return true
}

func (g *Guard) enter(c *call) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !c.insists && g.closed() {
		g.status.Bypassed++
		return false
	}
	if g.away && !c.insists {
		c.trial, g.trying = true, true
	}
	g.status.Calls++
	g.calls++
	c.number = g.calls
	return true
}

// leave abandons c. Returns false if c has returned already.
func (g *Guard) leave(c *call) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-c.over:
		return false
	default:
	}
	c.left = true
	if !c.insists {
		g.late++
	}
	return true
}

func (g *Guard) returned(c *call) (left bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if close(c.over); c.left && !c.insists {
		g.late--
	}
	return c.left
}

// note records the result of a call, and logs when Redis fails, comes back, or refuses a command. A call
// that started before the last failure does not prove that Redis is back.
func (g *Guard) note(ctx context.Context, c *call, replies []Reply, err error) {
	refused := slices.IndexFunc(replies, func(r Reply) bool { return r.Err != nil })
	now := time.Now()
	var sayAway, sayBack bool
	g.mu.Lock()
	g.trying = g.trying && !c.trial
	switch {
	case err != nil:
		sayAway = g.fell(c, now)
	case g.away && c.number > g.failed:
		sayBack = g.told
		g.away, g.told, g.back = false, false, now
	}
	sayRefused := err == nil && refused >= 0 && g.refused.Due(now)
	g.mu.Unlock()
	if sayAway {
		g.o.Logger.WarnContext(ctx, "redis: away or slow; it is bypassed until it answers again", "rest",
			g.o.Rest, "error", err)
	}
	if sayBack {
		g.o.Logger.InfoContext(ctx, "redis: answers again")
	}
	if sayRefused {
		g.o.Logger.WarnContext(ctx,
			"redis: it refuses a command: see which rights its user has, and whether it is a replica",
			"command", c.commands[refused][0], "error", fmt.Sprintf("%.200s", replies[refused].Err.Error()))
	}
}

// fell records a failure and reports whether to log it. The caller holds the lock.
func (g *Guard) fell(c *call, now time.Time) bool {
	g.status.Failures++
	if !g.away || c.trial {
		g.until = now.Add(g.o.Rest)
	}
	if !g.away && now.Sub(g.back) > time.Minute { // it has been stable for a while
		g.say.Over()
	}
	g.away, g.failed = true, g.calls
	due := g.say.Due(now)
	g.told = g.told || due
	return due
}
