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

// errNoReturn is the failure of a message whose function without a context does not return.
var errNoReturn = errors.New("inbox: a function without a context must only compute, and does not return")

// pureTime bounds a function without a context. The loop of the consumer waits for some of them.
const pureTime = 5 * time.Second

// pureCall is a call of a function without a context for a message.
type pureCall struct {
	what string
	id   store.Identity
}

// pureCalls are the calls that did not return in time. A message has at most one for each function. The zero
// value is empty. It is safe for concurrent use.
type pureCalls struct {
	mu  sync.Mutex
	now map[pureCall]bool
}

// pure calls a user's function without a context, with the name what. If the function takes longer than
// pureTime, pure returns an error, and its goroutine continues. The caller must then not use the variables
// that the function writes. Until the function returns, pure does not call it again for the same message.
func (x *Executor[TTx]) pure(e *partition.Entry, what string, f func() error) error {
	c := pureCall{what, e.Identity()}
	if x.unreturned.has(c) {
		return fmt.Errorf("%w: %s still runs since an earlier attempt", errNoReturn, what)
	}
	goesOn, err := x.pureOnce(what, f)
	if goesOn != nil {
		x.unreturned.add(c, goesOn)
	}
	return err
}

// pureOnce is pure without the check for earlier calls. If the function does not return in time, goesOn gets
// its result.
func (x *Executor[TTx]) pureOnce(what string, f func() error) (goesOn <-chan error, err error) {
	most := min(pureTime, x.o.Handle)
	done := failure.Start(f)
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case err := <-done:
		return nil, err
	case <-timer.C:
		return done, fmt.Errorf("%w: %s (%v)", errNoReturn, what, most)
	}
}

// has reports whether c has not returned.
func (p *pureCalls) has(c pureCall) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now[c]
}

// add adds c until done.
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
