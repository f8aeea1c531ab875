// This file has the types of handlers, for one message or several, and the functions that register them.

package inbox

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/store"
)

// Handler handles one message inside tx, which the inbox commits if the handler returns nil. The inbox rolls
// back after any error:
//
//   - skald.Reject rejects the message for good, and publishes drafts about it.
//   - skald.RetryAfter parks the message until a later time.
//   - skald.Permanent makes it a dead letter.
//   - Any other error parks it for a retry. The later messages of its key wait.
type Handler[TTx any] func(ctx context.Context, tx TTx, m skald.Message) error

// ResultHandler is a Handler with a Result, which the inbox stores with the mark. With skald.Reject it is the
// result of the rejection. With any other error the inbox ignores it.
type ResultHandler[TTx any] func(ctx context.Context, tx TTx, m skald.Message) (Result, error)

// Result is the answer of a handler.
type Result struct {
	Code    int32         // any number that your code defines
	Value   any           // Options.Codec encodes it once, to at most 64 KiB. Nil means none
	Publish []skald.Draft // written to the outbox after the drafts that the handler wrote itself
}

// On registers h as the handler of the event e. The inbox skips types of the same topic without a handler,
// and writes no mark for them. If another build of the consumer handles such a type, for example during a
// rollout, the inbox parks the message for that build.
func On[TTx, T any](in *Inbox[TTx], e skald.Event[T],
	h func(ctx context.Context, tx TTx, m skald.Received[T]) error) {
	in.Handle(e.Topic, e.Type, func(ctx context.Context, tx TTx, m skald.Message) error {
		r, err := decode(ctx, e, m)
		if err != nil {
			return err
		}
		return h(ctx, tx, r)
	})
}

func decode[T any](ctx context.Context, e skald.Event[T], m skald.Message) (skald.Received[T], error) {
	r, err := e.Decode(ctx, m)
	if err != nil {
		return r, &failure.MalformedError{Err: err}
	}
	return r, nil
}

// Handle registers h for encoded messages of one type of a topic. If one type of a topic has two handlers,
// Run and Step return an error.
func (in *Inbox[TTx]) Handle(topic, typ string, h Handler[TTx]) {
	in.HandleResult(topic, typ,
		func(ctx context.Context, tx TTx, m skald.Message) (Result, error) { return Result{}, h(ctx, tx, m) })
}

// OnResult registers h, a handler with a Result, as the handler of the event e.
func OnResult[TTx, T any](in *Inbox[TTx], e skald.Event[T],
	h func(ctx context.Context, tx TTx, m skald.Received[T]) (Result, error)) {
	in.HandleResult(e.Topic, e.Type, func(ctx context.Context, tx TTx, m skald.Message) (Result, error) {
		r, err := decode(ctx, e, m)
		if err != nil {
			return Result{}, err
		}
		return h(ctx, tx, r)
	})
}

// HandleResult registers h, a handler with a Result, for encoded messages of one type of a topic.
func (in *Inbox[TTx]) HandleResult(topic, typ string, h ResultHandler[TTx]) {
	in.registered.add(store.Kind{Topic: topic, Type: typ})
	if !slices.Contains(in.topics, topic) {
		in.topics = append(in.topics, topic)
	}
	in.exec.Handle(store.Kind{Topic: topic, Type: typ},
		func(ctx context.Context, tx TTx, m skald.Message) (exec.Reply, error) {
			r, err := h(ctx, tx, m)
			return exec.Reply(r), err
		})
}

// BatchHandler handles several messages together inside tx, which the inbox commits. Use it, for example, to
// write all of them with one INSERT. Messages with the same key are in order. Write the drafts caused by a
// message with skald.WithCause(ctx, m).
//
// It returns nil if it handled all messages. If one message failed, return FailMessage with an error as from
// a Handler. The inbox then handles that message alone, in order, and the other messages again without it.
// After any other error the inbox halves the batch until it finds the message that fails. If the handler
// ignored the end of its context, the inbox tries each message alone.
type BatchHandler[TTx any] func(ctx context.Context, tx TTx, ms []skald.Message) error

// OnBatch registers h as the handler of the event e, for up to Options.Batch messages at a time.
func OnBatch[TTx, T any](in *Inbox[TTx], e skald.Event[T],
	h func(ctx context.Context, tx TTx, ms []skald.Received[T]) error) {
	in.HandleBatch(e.Topic, func(ctx context.Context, tx TTx, ms []skald.Message) error {
		all := make([]skald.Received[T], len(ms))
		for i, m := range ms {
			var err error
			if all[i], err = decode(ctx, e, m); err != nil {
				return FailMessage(i, err)
			}
		}
		return h(ctx, tx, all)
	}, e.Type)
}

// HandleBatch registers h for encoded messages of one or several types of a topic. A batch may contain
// messages of all these types.
func (in *Inbox[TTx]) HandleBatch(topic string, h BatchHandler[TTx], types ...string) {
	many := exec.BatchHandler[TTx](func(ctx context.Context, tx TTx, ms []skald.Message) (int, error) {
		err := h(ctx, tx, ms)
		if g := (*MessageError)(nil); errors.As(err, &g) {
			return g.Index, err
		}
		return -1, err
	})
	for _, typ := range types {
		in.Handle(topic, typ, func(ctx context.Context, tx TTx, m skald.Message) error {
			err := h(ctx, tx, []skald.Message{m})
			if g := (*MessageError)(nil); errors.As(err, &g) {
				return g.Err
			}
			return err
		})
		in.exec.HandleBatch(store.Kind{Topic: topic, Type: typ}, &many)
	}
}

// MessageError is the error that FailMessage returns. The inbox also finds it if it is wrapped.
type MessageError struct {
	Index int
	Err   error
}

func (e *MessageError) Error() string {
	return fmt.Sprintf("message %d of a batch: %v", e.Index, e.Err)
}
func (e *MessageError) Unwrap() error { return e.Err }

// FailMessage returns the error with which a BatchHandler reports that the message with this index failed.
// The parameter err is an error as from a Handler, for example skald.Reject.
func FailMessage(index int, err error) error { return &MessageError{Index: index, Err: err} }

// Fence returns the fencing token of an entity that Options.Transaction.Entities returned. It returns 0 if
// the entity is not locked. The token is the version of the entity in the handler's transaction, and it only
// grows.
//
// Store the token with your rows. Work after the commit then updates rows only WHERE the token is unchanged,
// and so detects later transactions. If this transaction is rolled back, the next one gets the same token. So
// pass the token to others only after the commit.
func Fence(ctx context.Context, space, key string) int64 {
	return exec.Fence(ctx, space, key)
}

// LegacyDedupFunc records a message in a deduplication table of your own. It returns true if the table
// already had the message. It must do both in one statement that waits for other transactions: INSERT … ON
// CONFLICT DO NOTHING, where known is true if nothing was inserted. With a SELECT before the INSERT, two
// transactions can both handle the message. Id is the result of Options.Identity.Of.
type LegacyDedupFunc[TTx any] func(ctx context.Context, tx TTx, id store.Identity,
	m skald.Message) (known bool, err error)

// LegacyDedup keeps a deduplication table of your own up to date, in addition to the marks. Use it while
// consumers without Skald share the group, or while you may still return to them. Call it before Run.
//
// The inbox calls isKnown in each message's transaction, before the handler. If isKnown returns true the
// message is a duplicate: the inbox marks it and does not call the handler. Otherwise one commit writes your
// row, the mark and the effect or rejection. If the message fails, neither table has it. An error of isKnown
// counts as an error of the handler.
//
// The inbox ignores Options.Batch, and handles messages one by one. It does not call isKnown for a message
// that was admitted from quarantine although another message has its identity.
func (in *Inbox[TTx]) LegacyDedup(isKnown LegacyDedupFunc[TTx]) {
	in.exec.LegacyDedup(exec.LegacyDedupFunc[TTx](isKnown))
}

// registered records the callers that registered the handlers of an Inbox.
type registered struct {
	by     map[store.Kind]string
	faults []error
}

// add records the caller that registers a handler for k. A second handler for k is a fault, because it would
// silently replace the first.
func (r *registered) add(k store.Kind) {
	if r.by == nil {
		r.by = map[store.Kind]string{}
	}
	by := caller()
	if first, twice := r.by[k]; twice {
		r.faults = append(r.faults, fmt.Errorf("two handlers are given for the type %q of the topic %q, by %s and by "+
			"%s: leave one out, or give each an inbox of its own", k.Type, k.Topic, first, by))
	}
	r.by[k] = by
}

func (r *registered) fault() error { return errors.Join(r.faults...) }

// caller returns the function of this module that the user called, and the file and line of that call.
func caller() string {
	pc := make([]uintptr, 16)
	frames := runtime.CallersFrames(pc[:runtime.Callers(1, pc)])
	own, _ := frames.Next()
	module := path.Dir(own.Function[:strings.Index(own.Function, ".caller")])
	called := ""
	for {
		f, more := frames.Next()
		name, ours := strings.CutPrefix(f.Function, module+"/")
		pkg, _, _ := strings.Cut(name, ".")
		if ours = ours && (pkg == "inbox" || pkg == "saga" || pkg == "flow"); ours {
			called = strings.ReplaceAll(name, "[...]", "")
		}
		if !ours || !more {
			dir, file := path.Split(f.File)
			return fmt.Sprintf("%s at %s/%s:%d", called, path.Base(dir), file, f.Line)
		}
	}
}
