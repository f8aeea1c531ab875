// This file has the handlers of an inbox, of one message or several, and the calls that register them.

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

// Handler works on one message inside tx, which the inbox commits. Nil: done. skald.Reject: undone for
// good, and others are told. skald.RetryAfter: not yet. skald.Permanent: a dead letter. Any other error:
// undone, parked and tried again, with the messages of its key waiting behind it.
type Handler[TTx any] func(ctx context.Context, tx TTx, m skald.Message) error

// ResultHandler is a Handler that answers something, which is stored with the mark. With skald.Reject it is
// the rejection's answer; with any other error it is nothing.
type ResultHandler[TTx any] func(ctx context.Context, tx TTx, m skald.Message) (Result, error)

// Result is what a handler answers besides its effect.
type Result struct {
	Code  int32         // of your choice
	Value any           // encoded once, by Options.Codec; at most 64 KiB then. Nil: none
	Say   []skald.Draft // written into the outbox, after what the handler wrote itself
}

// On handles the event e with h. Types of the same topic that no handler is for are skipped, without a mark;
// those that another build of the consumer handles, as while a new one is rolled out, are parked for it.
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

// Handle is On for whole messages. Run and Step refuse two handlers for one type of a topic.
func (in *Inbox[TTx]) Handle(topic, typ string, h Handler[TTx]) {
	in.HandleResult(topic, typ,
		func(ctx context.Context, tx TTx, m skald.Message) (Result, error) { return Result{}, h(ctx, tx, m) })
}

// OnResult is On for handlers that answer something.
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

// HandleResult is Handle for handlers that answer something.
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

// BatchHandler works on several messages at once inside tx, which the inbox commits: one INSERT for all of
// them, for example. Those of one key are in their order. Nil: all are done. Guilty says which one failed,
// and how, as a Handler would; it is taken alone, at its place, and the others again without it. After any
// other error the inbox halves the batch until it finds the message. After a handler ignored that its context
// ended, the inbox tries each message alone. Drafts are said because of a message under
// skald.WithCause(ctx, m).
type BatchHandler[TTx any] func(ctx context.Context, tx TTx, ms []skald.Message) error

// OnBatch handles the event e with h, up to Options.Batch messages at once.
func OnBatch[TTx, T any](in *Inbox[TTx], e skald.Event[T],
	h func(ctx context.Context, tx TTx, ms []skald.Received[T]) error) {
	in.HandleBatch(e.Topic, func(ctx context.Context, tx TTx, ms []skald.Message) error {
		all := make([]skald.Received[T], len(ms))
		for i, m := range ms {
			var err error
			if all[i], err = decode(ctx, e, m); err != nil {
				return Guilty(i, err)
			}
		}
		return h(ctx, tx, all)
	}, e.Type)
}

// HandleBatch is OnBatch for whole messages, of one type or several: those of all types of one call share a
// batch.
func (in *Inbox[TTx]) HandleBatch(topic string, h BatchHandler[TTx], types ...string) {
	many := exec.BatchHandler[TTx](func(ctx context.Context, tx TTx, ms []skald.Message) (int, error) {
		err := h(ctx, tx, ms)
		if g := (*GuiltyError)(nil); errors.As(err, &g) {
			return g.Index, err
		}
		return -1, err
	})
	for _, typ := range types {
		in.Handle(topic, typ, func(ctx context.Context, tx TTx, m skald.Message) error {
			err := h(ctx, tx, []skald.Message{m})
			if g := (*GuiltyError)(nil); errors.As(err, &g) {
				return g.Err
			}
			return err
		})
		in.exec.HandleBatch(store.Kind{Topic: topic, Type: typ}, &many)
	}
}

// GuiltyError is what Guilty returns. The inbox finds it through any wrapping.
type GuiltyError struct {
	Index int
	Err   error
}

func (e *GuiltyError) Error() string { return fmt.Sprintf("message %d of a batch: %v", e.Index, e.Err) }
func (e *GuiltyError) Unwrap() error { return e.Err }

// Guilty is a BatchHandler's error of the message with that index; err as of a Handler, skald.Reject for
// example.
func Guilty(index int, err error) error { return &GuiltyError{Index: index, Err: err} }

// Fence is the fencing token of an entity that Options.Transaction.Entities names: the version that the
// handler's transaction gives it, which only grows. 0: the entity is not locked. Write it with your rows;
// who works on after the commit then writes only WHERE it is still the same, and so finds out that it was
// overtaken. A transaction that is rolled back leaves its token to the next: show it to others only once it
// is committed.
func Fence(ctx context.Context, space, key string) int64 {
	return exec.Fence(ctx, space, key)
}

// Known function asks a table of your own whether a message was handled, and notes that it is, in one
// statement that waits for a rival: INSERT … ON CONFLICT DO NOTHING, and known is that nothing was inserted.
// To look first and note then lets two through. Id is what Options.Identity.Of made of the message.
type Known[TTx any] func(ctx context.Context, tx TTx, id store.Identity,
	m skald.Message) (known bool, err error)

// LegacyDedup keeps a table of your own up to date beside the marks, for as long as consumers that were
// written by hand share the group, or may take it back: known is asked in each message's transaction, before
// its handler. What your table knows counts as a duplicate: it is marked, and not handled. What it does not
// know is noted there and marked, in one commit with its effect or its rejection; a message that fails is
// noted in neither. An error of known is one of the handler. Messages are taken one by one meanwhile,
// whatever Options.Batch. Tell it before Run. A message that was admitted out of quarantine although
// another has its identity is handled without asking.
func (in *Inbox[TTx]) LegacyDedup(known Known[TTx]) { in.exec.Beside(exec.Known[TTx](known)) }

// registered are the calls that gave an Inbox its handlers.
type registered struct {
	by     map[store.Kind]string
	faults []error
}

// add notes the call that gives a handler for k. Two handlers for one type of a topic are a fault: the later
// one would replace the other without a word.
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

// caller returns the function of this module that the user called, and where.
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
