// Package lending tells an outbox which transaction the handler that calls it was lent, and the handler when
// that transaction is committed.
package lending

import (
	"context"
	"fmt"
	"sync"

	"github.com/skald-go/skald"
)

// A Loan is a transaction in the hands of a handler.
type Loan struct {
	Tx       any    // the driver's transaction
	Consumer string // whose handler
	ID, Type string // of the message in hand; empty where there is none, as in once.Do
	// Record takes the messages that the handler writes, instead of the table. Nil: they go to the table.
	Record func([]skald.Message) error
}

type loanKey struct{}

// With returns a context that tells of the loan. The zero Loan: there is none.
func With(ctx context.Context, l Loan) context.Context { return context.WithValue(ctx, loanKey{}, l) }

// In is the loan of the handler whose context ctx is.
func In(ctx context.Context) (l Loan, ok bool) {
	l, _ = ctx.Value(loanKey{}).(Loan)
	return l, l.Tx != nil
}

// A Transaction is a driver's transaction that knows itself below what a user put around it.
type Transaction interface {
	// Same tells whether other ends with this transaction: it is the same one, a savepoint in it, or a
	// wrapper around either.
	Same(other any) bool
	// NameOf names other, so that a reader of logs knows which database and which session it is in.
	NameOf(other any) string
}

// Is tells whether tx is the transaction that was lent.
func (l Loan) Is(tx any) bool {
	if l.Tx == tx {
		return true
	}
	t, ok := l.Tx.(Transaction)
	return ok && t.Same(tx)
}

// By says who lent it, and for what.
func (l Loan) By() string {
	if l.Type == "" {
		return fmt.Sprintf("%s %.200q", l.Consumer, l.ID)
	}
	return fmt.Sprintf("consumer %s for %.200q of type %.200q", l.Consumer, l.ID, l.Type)
}

// NameOf names a transaction.
func (l Loan) NameOf(tx any) string {
	if t, ok := l.Tx.(Transaction); ok {
		return t.NameOf(tx)
	}
	return fmt.Sprintf("%T %p", tx, tx)
}

type commitKey struct{}

// commitHooks are the functions to call after the commit of one transaction.
type commitHooks struct {
	mu    sync.Mutex
	hooks []func()
}

// Watch returns a context in which the handler of one transaction notes functions with OnCommit. The owner of
// the transaction calls Committed after the commit.
func Watch(ctx context.Context) context.Context {
	return context.WithValue(ctx, commitKey{}, &commitHooks{})
}

// OnCommit notes f to be called after the commit of tx. Returns false if tx is not the transaction that the
// handler was lent, or if its owner does not call Committed.
func OnCommit(ctx context.Context, tx any, f func()) bool {
	c, ok := ctx.Value(commitKey{}).(*commitHooks)
	loan, lent := In(ctx)
	if !ok || c == nil || !lent || !loan.Is(tx) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooks = append(c.hooks, f)
	return true
}

// Committed calls the functions that OnCommit noted, once.
func Committed(ctx context.Context) {
	c, _ := ctx.Value(commitKey{}).(*commitHooks)
	if c == nil {
		return
	}
	c.mu.Lock()
	hooks := c.hooks
	c.hooks = nil
	c.mu.Unlock()
	for _, f := range hooks {
		f()
	}
}
