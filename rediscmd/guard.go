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

// ErrBypassed is the answer of a Guard while it asks nothing.
var ErrBypassed = errors.New("rediscmd: Redis failed or was slow a moment ago: it is not asked")

// GuardOptions of a Guard. The zero value works.
type GuardOptions struct {
	Timeout time.Duration // how long one call may take. Default 25 ms
	// for how long Redis is not asked after a call that failed or was too slow. Default 1 s
	Rest time.Duration
	// is told when that begins and when it ends, and what is refused. Default slog.Default()
	Logger *slog.Logger
}

// Guard is a Client that never takes longer than its timeout, whatever the client below it does: a client
// that ignores its context is left alone, and one that panics has failed. At most 64 calls are under way;
// others wait for their turn within their timeout. After a call that failed or was too slow it answers
// ErrBypassed for a while, at once; then one call tries.
type Guard struct {
	client Client
	o      GuardOptions
	turns  chan struct{} // of Do: one for each call under way
	sure   chan struct{} // of Insist

	mu      sync.Mutex
	until   time.Time // bypassed until then
	away    bool      // the last call failed
	trying  bool      // after the rest one call is under way that tries
	late    int       // calls of Do that nobody waits for any more
	calls   int64     // that were begun
	failed  int64     // calls had been begun when one failed last
	status  GuardStatus
	back    time.Time      // Redis came back last
	told    bool           // that it is away
	say     backoff.Rarely // that
	refused backoff.Rarely // that it refuses commands

	undoing bool
	undo    []undo
	wake    chan struct{} // there is more to be undone
}

// GuardStatus counts the calls of a Guard.
type GuardStatus struct {
	Calls    int64 // that were made
	Failures int64 // of these, too slow ones included
	Bypassed int64 // calls that were not made
	Away     bool  // the last call failed
}

const (
	mostUnderWay = 64 // calls of Do
	mostInsist   = 16 // calls of Insist, which have turns of their own
	mostLate     = 4  // calls under way that nobody waits for any more: with more of them Do asks nothing

	// A call below may go on for that long after it was left, so that a client can finish what it begins: to
	// connect takes longer than a command.
	leastBelow = time.Second
)

// NewGuard is a guard of c.
func NewGuard(c Client, o *GuardOptions) *Guard {
	var d GuardOptions
	if o != nil {
		d = *o
	}
	d.Timeout, d.Rest = cmp.Or(d.Timeout, 25*time.Millisecond), cmp.Or(d.Rest, time.Second)
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	rarely := backoff.Rarely{First: 20 * time.Second, Most: 10 * time.Minute}
	return &Guard{client: c, o: d, turns: make(chan struct{}, mostUnderWay),
		sure: make(chan struct{}, mostInsist),
		say:  rarely, refused: rarely, wake: make(chan struct{}, 1)}
}

// Status may be called at any time.
func (g *Guard) Status() GuardStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.status
	s.Away = g.away
	return s
}

// A call is under way below a Guard.
type call struct {
	commands [][]string
	insists  bool
	undo     [][]string // is sent if it is not known what commands did
	within   time.Duration

	replies []Reply
	err     error
	over    chan struct{} // closed when it has returned

	number int64
	trial  bool // behind a rest
	left   bool // nobody waits for it any more
}

// Do sends commands, unless Redis is bypassed. A caller whose own context ends is no failure of Redis.
func (g *Guard) Do(ctx context.Context, commands [][]string) ([]Reply, error) {
	return g.do(ctx, &call{commands: commands})
}

// Insist is Do, but asks while Redis is bypassed, too.
func (g *Guard) Insist(ctx context.Context, commands [][]string) ([]Reply, error) {
	return g.do(ctx, &call{commands: commands, insists: true})
}

// Take is Do. Where it does not know what commands did, it has undo sent as Undo does, once they are over
// below: a client may still be sending them when their caller has gone.
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
			// it waited for its turn: Redis had too little time to be judged
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

// untried: c does not tell whether Redis is back; another one may.
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

// caught is do with a client that may panic, as some do on replies that they cannot read.
func caught(ctx context.Context, c Client, commands [][]string) (replies []Reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			replies, err = nil, fmt.Errorf("rediscmd: the client panicked: %v", p)
		}
	}()
	return do(ctx, c, commands)
}

// turn waits until c may begin. The caller of an insisting one waits for others of its kind alone.
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

// closed: Redis is bypassed. The caller has the lock.
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

// leave waits for c no more; false: it has returned.
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

// note takes up how a call ended, and says when Redis goes away, when it is back, and what it refuses. What
// began before another one failed does not tell that Redis is back.
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

// fell notes that c failed; true: that is to be said. The caller has the lock.
func (g *Guard) fell(c *call, now time.Time) bool {
	g.status.Failures++
	if !g.away || c.trial {
		g.until = now.Add(g.o.Rest)
	}
	if !g.away && now.Sub(g.back) > time.Minute { // not one that comes and goes
		g.say.Over()
	}
	g.away, g.failed = true, g.calls
	due := g.say.Due(now)
	g.told = g.told || due
	return due
}
