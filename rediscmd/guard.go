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

// ErrBypassed is returned by a Guard while it does not send commands.
var ErrBypassed = errors.New("rediscmd: Redis failed or was slow recently, so it is bypassed")

// GuardOptions configures a Guard. The zero value works.
type GuardOptions struct {
	Timeout time.Duration // the limit of one call. Default 25 ms
	// Rest is the time for which the Guard bypasses Redis after a failed or slow call. Default 1 s.
	Rest time.Duration
	// Logger receives a line when a bypass begins and ends, and for refused commands. Default slog.Default().
	Logger *slog.Logger
}

// Guard is a Client that never takes longer than its timeout. It stops waiting for a client that ignores its
// context, and treats a panic of the client as a failure. At most 64 calls run at the same time; others wait
// within their timeout. After a failed or slow call it returns ErrBypassed immediately for the time Rest.
// Then one call tests Redis.
type Guard struct {
	client Client
	o      GuardOptions
	turns  chan struct{} // has a value for each running call of Do and Take
	sure   chan struct{} // has a value for each running call of Insist

	mu      sync.Mutex
	until   time.Time // the end of the bypass
	away    bool      // the last call failed
	trying  bool      // a call is testing Redis
	late    int       // running calls of Do that their callers have given up
	calls   int64     // number of started calls
	failed  int64     // the value of calls at the last failure
	status  GuardStatus
	back    time.Time        // when Redis last answered again
	told    bool             // the failure was logged
	say     backoff.LogLimit // limits log lines about failures
	refused backoff.LogLimit // limits log lines about refused commands

	undoing bool
	undo    []undo        // commands to send in the background
	wake    chan struct{} // wakes undoAll
}

// GuardStatus has counts of the calls of a Guard.
type GuardStatus struct {
	Calls       int64 // calls sent
	Failures    int64 // failed and slow calls
	Bypassed    int64 // calls that were not sent
	Unavailable bool  // the last call failed
}

const (
	mostUnderWay = 64 // maximum of running calls of Do
	mostInsist   = 16 // maximum of running calls of Insist
	mostLate     = 4  // number of abandoned running calls from which on Do returns ErrBypassed

	// leastBelow is the minimum timeout of the client's call. It is longer than a command, so that the client
	// can finish connecting after the caller has given up.
	leastBelow = time.Second
)

// NewGuard returns a Guard that sends commands with c.
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

// Status returns the counts. It is safe for concurrent use.
func (g *Guard) Status() GuardStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.status
	s.Unavailable = g.away
	return s
}

// call is a call of the client that is in progress.
type call struct {
	commands [][]string
	insists  bool
	undo     [][]string    // commands to send if the result of commands is unknown
	within   time.Duration // the time limit of undo

	replies []Reply
	err     error
	over    chan struct{} // closed when the call has returned

	number int64
	trial  bool // the call tests Redis after a bypass
	left   bool // the caller has given up
}

// Do sends commands, or returns ErrBypassed. If the caller's context ends, this does not count as a failure
// of Redis.
func (g *Guard) Do(ctx context.Context, commands [][]string) ([]Reply, error) {
	return g.do(ctx, &call{commands: commands})
}

// Insist works like Do, but also sends commands during a bypass.
func (g *Guard) Insist(ctx context.Context, commands [][]string) ([]Reply, error) {
	return g.do(ctx, &call{commands: commands, insists: true})
}

// Take works like Do. If the result of commands is unknown, it also sends the commands undo in the
// background, as the method Undo does. It does this only after the call of the client has ended, because
// the client may still send commands after the caller has given up.
func (g *Guard) Take(ctx context.Context, commands, undo [][]string, within time.Duration) ([]Reply, error) {
	return g.do(ctx, &call{commands: commands, undo: undo, within: within})
}

func (g *Guard) do(ctx context.Context, c *call) ([]Reply, error) {
	timeout := time.NewTimer(g.o.Timeout)
	defer timeout.Stop()
	turn, err := g.waitTurn(ctx, c, timeout.C)
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
			// The call had to wait for its turn, so Redis had too little time to answer.
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

// untried records that c has not tested Redis, so that another call may test it.
func (g *Guard) untried(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying = g.trying && !c.trial
}

// run calls the client, in a goroutine of its own.
func (g *Guard) run(ctx context.Context, c *call, turn chan struct{}) {
	defer func() { <-turn }()
	bound, cancel := context.WithTimeout(ctx, max(g.o.Timeout, leastBelow))
	defer cancel()
	c.replies, c.err = caught(bound, g.client, c.commands)
	if left := g.returned(c); left || c.err != nil {
		g.addUndo(c.undo, c.within, true)
	}
}

// caught calls do. It returns a panic as an error, because some clients panic on replies that they cannot
// parse.
func caught(ctx context.Context, c Client, commands [][]string) (replies []Reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			replies, err = nil, fmt.Errorf("rediscmd: the client panicked: %v", p)
		}
	}()
	return do(ctx, c, commands)
}

// waitTurn waits until the call c may start. Calls of Insist do not wait for calls of Do.
func (g *Guard) waitTurn(ctx context.Context, c *call, timeout <-chan time.Time) (chan struct{}, error) {
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

// closed returns true during a bypass. The caller holds the lock.
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

// leave records that the caller of c gives up. It returns false if c has already ended.
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

// note records the result of a call. It logs when Redis fails, answers again, or refuses a command. A call
// that started before the last failure does not prove that Redis answers again.
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

// fell records a failure. It returns true if the failure must be logged. The caller holds the lock.
func (g *Guard) fell(c *call, now time.Time) bool {
	g.status.Failures++
	if !g.away || c.trial {
		g.until = now.Add(g.o.Rest)
	}
	if !g.away && now.Sub(g.back) > time.Minute { // Redis was stable for a minute, so log this failure
		g.say.Over()
	}
	g.away, g.failed = true, g.calls
	due := g.say.Due(now)
	g.told = g.told || due
	return due
}
