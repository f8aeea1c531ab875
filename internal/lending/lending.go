// Package lending stores the transaction of a handler in the handler's context. An outbox reads it there, to
// check that the handler writes in this transaction. The package also calls functions after the commit of
// the transaction.
package lending

import (
	"context"
	"fmt"
	"sync"

	"github.com/skald-go/skald"
)

// Loan is the transaction that a handler uses, and that the caller of the handler commits.
type Loan struct {
	Tx       any    // the transaction of the driver
	Consumer string // the consumer of the handler
	ID, Type string // of the message; Type is empty without a message, as in once.Do
	// Record, if not nil, receives the messages that the handler writes. Otherwise the outbox inserts them
	// into its table.
	Record func([]skald.Message) error
}

type loanKey struct{}

// With returns a context with the loan. The zero Loan means that the context has no loan.
func With(ctx context.Context, l Loan) context.Context { return context.WithValue(ctx, loanKey{}, l) }

// In returns the loan in ctx. It returns ok=false if ctx has no loan.
func In(ctx context.Context) (l Loan, ok bool) {
	l, _ = ctx.Value(loanKey{}).(Loan)
	return l, l.Tx != nil
}

// Transaction is a transaction of a driver that recognizes wrappers around itself.
type Transaction interface {
	// Same reports whether other ends with this transaction: it is the same transaction, a savepoint in it,
	// or a wrapper around one of these.
	Same(other any) bool
	// NameOf returns a name of the transaction other for logs, with its database and its session.
	NameOf(other any) string
}

// Is reports whether tx is the transaction of the loan.
func (l Loan) Is(tx any) bool {
	if l.Tx == tx {
		return true
	}
	t, ok := l.Tx.(Transaction)
	return ok && t.Same(tx)
}

// By describes the handler of the loan: its consumer, and the message.
func (l Loan) By() string {
	if l.Type == "" {
		return fmt.Sprintf("%s %.200q", l.Consumer, l.ID)
	}
	return fmt.Sprintf("consumer %s for %.200q of type %.200q", l.Consumer, l.ID, l.Type)
}

// NameOf returns a name of the transaction tx for logs.
func (l Loan) NameOf(tx any) string {
	if t, ok := l.Tx.(Transaction); ok {
		return t.NameOf(tx)
	}
	return fmt.Sprintf("%T %p", tx, tx)
}

type commitKey struct{}

// commitHooks has the functions to call after the commit of one transaction.
type commitHooks struct {
	mu    sync.Mutex
	hooks []func()
}

// Watch returns a context for the handler of one transaction. The handler may call OnCommit with this
// context. The owner of the transaction must call Committed after the commit.
func Watch(ctx context.Context) context.Context {
	return context.WithValue(ctx, commitKey{}, &commitHooks{})
}

// OnCommit registers f to be called after the commit of tx. It returns false if tx is not the transaction of
// the loan in ctx, or if ctx does not come from Watch. Then f is not called.
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

// Committed calls the functions that OnCommit registered, each once.
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
