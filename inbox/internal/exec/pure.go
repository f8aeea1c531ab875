// This file calls user functions that have no context, with a time limit.

package exec

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// errNoReturn is the failure of a message if a function without a context does not return.
var errNoReturn = errors.New("inbox: a function without a context must only compute, and does not return")

// pureTime is the time limit of a function without a context. The goroutine that receives messages waits for
// some of these functions.
const pureTime = 5 * time.Second

// pureCall identifies a call of a function for a message.
type pureCall struct {
	name string
	id   store.Identity
}

// pureCalls has the calls that did not return in time. A message has at most one for each function. The zero
// value is empty. It is safe for concurrent use.
type pureCalls struct {
	mu  sync.Mutex
	now map[pureCall]bool
}

// pure calls a user's function without a context. Errors contain its name. If the function takes
// longer than pureTime, pure returns an error, and the function continues in its goroutine. The caller must
// then not use the variables that the function writes. Until the function returns, pure does not call it
// again for the same message.
func (x *Executor[TTx]) pure(e *partition.Entry, name string, f func() error) error {
	c := pureCall{name, e.Identity()}
	if x.unreturned.has(c) {
		return fmt.Errorf("%w: %s still runs since an earlier attempt", errNoReturn, name)
	}
	pending, err := x.pureOnce(name, f)
	if pending != nil {
		x.unreturned.add(c, pending)
	}
	return err
}

// pureOnce calls f like pure, but without the check for earlier calls. If f does not return in time, pending
// receives its result later.
func (x *Executor[TTx]) pureOnce(name string, f func() error) (pending <-chan error, err error) {
	most := min(pureTime, x.o.Handle)
	done := failure.Start(f)
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case err := <-done:
		return nil, err
	case <-timer.C:
		return done, fmt.Errorf("%w: %s (%v)", errNoReturn, name, most)
	}
}

// has reports whether c has not returned.
func (p *pureCalls) has(c pureCall) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now[c]
}

// add adds the call c, and removes c when the channel done receives a result.
func (p *pureCalls) add(c pureCall, done <-chan error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		p.now = map[pureCall]bool{}
	}
	p.now[c] = true
	go func() {
		<-done
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.now, c)
	}()
}
