package call

import (
	"context"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Endpoint is an operation of a provider. Pass it to saga.Call, or to New for an inbox.
type Endpoint[TReq, TOut any] struct {
	at     *Provider
	do     func(ctx context.Context, req TReq, key string) (TOut, error)
	lookUp func(ctx context.Context, req TReq, key string) (TOut, bool, error)
	cancel func(ctx context.Context, req TReq, key string) (TOut, bool, error)
	memory time.Duration
}

// NewEndpoint returns an endpoint that sends requests with the function do. Call.Do lists the errors that
// this function may return. The provider must deduplicate by key, or WithLookup must find earlier work.
func NewEndpoint[TReq, TOut any](at *Provider,
	do func(ctx context.Context, req TReq, key string) (TOut, error)) Endpoint[TReq, TOut] {
	return Endpoint[TReq, TOut]{at: at, do: do}
}

// WithLookup returns a copy of e with a function that finds earlier work under a key: see Call.LookUp.
func (e Endpoint[TReq, TOut]) WithLookup(find func(ctx context.Context, req TReq,
	key string) (out TOut, found bool, err error)) Endpoint[TReq, TOut] {
	e.lookUp = find
	return e
}

// WithCancel returns a copy of e with a function that voids a key: see Call.Cancel.
func (e Endpoint[TReq, TOut]) WithCancel(cancel func(ctx context.Context, req TReq,
	key string) (out TOut, done bool, err error)) Endpoint[TReq, TOut] {
	e.cancel = cancel
	return e
}

// WithMemory returns a copy of e for a provider that remembers keys for this time: see Call.Memory.
func (e Endpoint[TReq, TOut]) WithMemory(memory time.Duration) Endpoint[TReq, TOut] {
	e.memory = memory
	return e
}

// Fault returns why e cannot send requests, or "" if it can.
func (e Endpoint[TReq, TOut]) Fault() string {
	if e.at == nil || e.do == nil {
		return "its endpoint has no provider or no function: make it by call.NewEndpoint"
	}
	return ""
}

// New returns a Call to an endpoint, for the handler of a message. The function request returns the request
// and its key. The function settle writes the consequences of the answer in tx. If the request depends on
// data in the transaction, fill in a Call instead.
func New[TTx, T, TReq, TOut any](e Endpoint[TReq, TOut],
	request func(m skald.Received[T]) (req TReq, key string),
	settle func(ctx context.Context, tx TTx, m skald.Received[T],
		o Outcome[TOut]) error) Call[TTx, T, TReq, TOut] {
	return Call[TTx, T, TReq, TOut]{At: e.at, Do: e.do, LookUp: e.lookUp, Cancel: e.cancel, Memory: e.memory,
		Settle: settle,
		Intent: func(_ context.Context, _ TTx, m skald.Received[T]) (TReq, string, error) {
			req, key := request(m)
			return req, key, nil
		}}
}

// InTx converts a call that uses no transaction to one for transactions of type TTx. It is for drivers.
func InTx[TTx any](b Bound[any]) Bound[TTx] {
	return Bound[TTx]{at: b.at, memory: b.memory, ask: b.ask, by: b.by,
		Intend: func(ctx context.Context, tx TTx, m skald.Message) (*store.Call, error) {
			return b.Intend(ctx, tx, m)
		},
		Settle: func(ctx context.Context, tx TTx, m skald.Message, outcome string) error {
			return b.Settle(ctx, tx, m, outcome)
		},
	}
}
