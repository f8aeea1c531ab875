package rediscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// ErrBypassed is the answer of a Guard while it asks nothing.
var ErrBypassed = errors.New("rediscmd: Redis failed or was slow a moment ago: it is not asked")

// GuardOptions of a Guard. The zero value works.
type GuardOptions struct {
	Timeout time.Duration // how long one call may take. Default 25 ms
	// for how long Redis is not asked after a call that failed or was too slow. Default 1 s
	Rest   time.Duration
	Logger *slog.Logger // is told when that begins and when it ends. Default slog.Default()
}

// A Guard is a Client that never takes longer than its timeout, whatever the client below it does: a client
// that ignores its context is left alone, and at most four such calls may be under way. After a call that
// failed or was too slow it answers ErrBypassed for a while, at once.
type Guard struct {
	client Client
	o      GuardOptions

	mu     sync.Mutex
	until  time.Time // bypassed until then
	away   bool      // the last call failed
	late   int       // calls that nobody waits for any more
	status GuardStatus
}

// GuardStatus counts the calls of a Guard.
type GuardStatus struct {
	Calls    int64 // that were made
	Failures int64 // of these, too slow ones included
	Bypassed int64 // calls that were not made
	Away     bool  // the last call failed
}

// mostLate is how many calls may be under way that nobody waits for any more.
const mostLate = 4

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
	return &Guard{client: c, o: d}
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
	replies []Reply
	err     error
	over    chan struct{} // closed when it has returned
	left    bool          // nobody waits for it any more
}

// Do sends commands, unless Redis is bypassed. A caller whose own context ends is no failure of Redis.
func (g *Guard) Do(ctx context.Context, commands [][]string) ([]Reply, error) {
	if !g.enter() {
		return nil, ErrBypassed
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.o.Timeout)
	c := &call{over: make(chan struct{})}
	go func() {
		defer cancel()
		c.replies, c.err = do(bound, g.client, commands)
		g.returned(c)
	}()
	select {
	case <-c.over:
	case <-ctx.Done():
		g.leave(c)
		return nil, context.Cause(ctx)
	case <-bound.Done():
		if g.leave(c) {
			err := fmt.Errorf("rediscmd: no answer within %v", g.o.Timeout)
			g.note(ctx, err)
			return nil, err
		}
	}
	g.note(ctx, c.err)
	return c.replies, c.err
}

func (g *Guard) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.late >= mostLate || time.Now().Before(g.until) {
		g.status.Bypassed++
		return false
	}
	g.status.Calls++
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
	g.late++
	return true
}

func (g *Guard) returned(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if close(c.over); c.left {
		g.late--
	}
}

// note takes up how a call ended, and says when Redis goes away and when it is back.
func (g *Guard) note(ctx context.Context, err error) {
	g.mu.Lock()
	was := g.away
	if g.away = err != nil; g.away {
		g.status.Failures++
		g.until = time.Now().Add(g.o.Rest)
	}
	g.mu.Unlock()
	switch {
	case err != nil && !was:
		g.o.Logger.WarnContext(ctx, "redis: away or slow; it is bypassed until it answers again", "rest", g.o.Rest, "error", err)
	case err == nil && was:
		g.o.Logger.InfoContext(ctx, "redis: answers again")
	}
}
