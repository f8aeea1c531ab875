package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// An undo is what ends a message's transaction, if there is one, and does something instead: Unit.Rollback or Store.Apply.
type undo func(ctx context.Context, instead ...store.Effect) ([]bool, error)

// identity is what a message is known by: where it has no id, by where it lies at the broker and what it is.
func (e *entry) identity() store.Identity {
	switch {
	case e.parked != nil:
		return e.parked.Identity
	case e.readable():
		return e.id
	}
	sum := sha256.Sum256(append(append([]byte(nil), e.Key...), e.Data...))
	return store.Identity{Source: "skald:" + e.Lane, ID: strconv.FormatInt(e.Position, 10) + "-" + hex.EncodeToString(sum[:8])}
}

// parcel is e as it is to be kept, with what is known of it so far.
func (in *Inbox[TTx]) parcel(e *entry) *store.Keep {
	k := &store.Keep{MostRows: in.o.KeyRows, MostBytes: in.o.KeyBytes, Step: e.takes()}
	if e.parked != nil {
		k.Parked = *e.parked
		k.Claims, k.Life = 0, "" // this is the answer
		was := e.parked.Attempts
		k.Was, k.WasCall = &was, e.callKey()
		return k
	}
	k.Parked = store.Parked{Consumer: in.group, Identity: e.identity(), Message: e.Message, Lane: e.Lane, Position: e.Position}
	if !e.readable() {
		k.Fault = e.unreadable().Error()
	}
	return k
}

// queue parks e behind those of its key.
func (in *Inbox[TTx]) queue(ctx context.Context, e *entry, end undo) result {
	return in.store(ctx, e, end, store.Effect{Keep: in.parcel(e)}, result{entry: e, what: queued})
}

// later parks e until the handler wants it again; that is no failure.
func (in *Inbox[TTx]) later(ctx context.Context, e *entry, end undo, after time.Duration, err error) result {
	k := in.parcel(e)
	k.Due = after
	return in.store(ctx, e, end, store.Effect{Keep: k}, result{entry: e, what: later, after: after, err: err})
}

// failure sorts an error: whose fault it is decides what becomes of the message.
func (in *Inbox[TTx]) failure(ctx context.Context, e *entry, end undo, err error) result {
	drop := func(what ending) result {
		if what == outage {
			in.giveBack(ctx, e, end)
		} else {
			_, _ = end(ctx)
		}
		return result{entry: e, what: what, err: err}
	}
	if store.Incurable(err) || errors.Is(err, store.ErrLent) {
		return drop(broken)
	}
	class := in.classify(e.Message, err)
	if class == Outage || ctx.Err() != nil && !errors.Is(err, ErrTimeout) { // a handler that is told to stop has not failed
		return drop(outage)
	}
	k, now := in.parcel(e), in.o.Now()
	k.Last = store.Failure{At: now, Why: why(err), Host: in.o.Host}
	if k.First.At.IsZero() {
		k.First = k.Last
	}
	first := k.Attempts == 0
	if first {
		k.Attempts = in.earlier(e)
	}
	if class != UnknownVersion {
		k.Attempts++
	}
	k.Due = backoff.After(max(k.Attempts, 1), in.o.RetryFirst, in.o.RetryMost)
	if class == UnknownVersion {
		k.Due = backoff.After(1, in.o.RetryMost, in.o.RetryMost)
	}
	r := result{entry: e, what: failed, after: k.Due, err: err, attempts: k.Attempts}
	if first && class != UnknownVersion {
		r.print = in.kindOf(class, e.Type, why(err))
	}
	effect := store.Effect{Keep: k}
	if kind := in.fatal(class, k, now); kind != "" {
		k.Dead = in.death(kind, class, e, err, now)
		r.what = dead
		effect.Rows = in.announcement(ctx, k)
	}
	return in.store(ctx, e, end, effect, r)
}

// fatal says why a message is not tried again; "": it is.
func (in *Inbox[TTx]) fatal(class Class, k *store.Keep, now time.Time) string {
	switch {
	case class == Permanent, class == Malformed:
		return string(class)
	case k.Attempts >= in.o.Attempts:
		return "attempts"
	case now.Sub(k.First.At) >= in.o.Age:
		return "age"
	}
	return ""
}

// store ends the transaction of e and keeps it instead. If that is refused, it is not for us to know why yet: the next
// take finds out.
func (in *Inbox[TTx]) store(ctx context.Context, e *entry, end undo, effect store.Effect, r result) result {
	if e.parked == nil && effect.Keep.Dead == nil && !in.room() {
		_, _ = end(ctx)
		return result{entry: e, what: full, err: fmt.Errorf("%w: %w", ErrFull, cause(r.err))}
	}
	// What the handler was given of time may be over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), in.o.Wait+5*time.Second)
	defer cancel()
	stands, err := end(ctx, effect)
	switch {
	case err != nil && (store.Incurable(err) || errors.Is(err, store.ErrLent)):
		return result{entry: e, what: broken, err: fmt.Errorf("park %s: %w", e.ID, err)}
	case err != nil:
		return result{entry: e, what: outage, err: fmt.Errorf("park %s: %w", e.ID, err)}
	case !stands[0] && e.parked != nil:
		return result{entry: e, what: stale}
	case !stands[0]: // finished or kept by a rival, or its key is full
		return result{entry: e, what: full, err: fmt.Errorf("%w: %w", ErrFull, cause(r.err))}
	}
	return r
}

// ErrFull is why a lane pauses: no more may be parked of a key or for the consumer.
var ErrFull = errors.New("inbox: no more may be parked")

func cause(err error) error {
	if err == nil {
		return errors.New("others of its key are parked")
	}
	return err
}

// room tells whether the consumer may park more.
func (in *Inbox[TTx]) room() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.kept.Parked < in.o.ParkedRows && in.kept.Bytes < in.o.ParkedBytes
}

// giveBack lets a claimed message be claimed again soon, instead of when its lease is over. Nothing rests on it.
func (in *Inbox[TTx]) giveBack(ctx context.Context, e *entry, end undo) {
	if e.parked == nil {
		_, _ = end(ctx)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	k := in.parcel(e)
	k.Due = in.o.RetryFirst
	_, _ = end(ctx, store.Effect{Keep: k})
}

// why is err without the stack of a panic, which a dead letter has apart.
func why(err error) string {
	var p *PanicError
	if errors.As(err, &p) {
		return strings.ReplaceAll(err.Error(), "\n"+string(p.Stack), "")
	}
	return err.Error()
}

// freed ends the keeping of a message that was claimed.
func (in *Inbox[TTx]) freed(e *entry) *store.Free {
	if e.parked == nil {
		return nil
	}
	attempts := e.parked.Attempts
	return &store.Free{Consumer: in.group, Identity: e.identity(), Attempts: &attempts, WasCall: e.callKey(), Place: e.parked.Place}
}

// callKey is the key of the call that e was read at; "": of none.
func (e *entry) callKey() string {
	if e.parked == nil || e.parked.Call == nil {
		return ""
	}
	return e.parked.Call.Key
}

// taken is for a claimed message that is not to be handled: it was finished meanwhile, or another one under its identity, or somebody else
// has it.
func (in *Inbox[TTx]) taken(ctx context.Context, e *entry, unit store.Unit[TTx], v store.Verdict, print int64) result {
	switch {
	case v.Outcome != store.Done && v.Outcome != store.Rejected && v.Outcome != store.Barred:
		_, _ = unit.Rollback(ctx)
		return result{entry: e, what: stale}
	case e.step != nil:
		_, _ = unit.Rollback(ctx) // its intake was of a message that is to be handled
		return in.finishedElsewhere(ctx, e, v, print)
	case judge(v, print) == store.Conflict:
		return in.known(ctx, e, unit, v, print)
	}
	_, _ = unit.Rollback(ctx, store.Effect{Free: in.freed(e)}) // else it is claimed again
	return result{entry: e, what: duplicate}
}

// keptAlready is for a message that came again while it is parked or a dead letter. Another one under its identity is a
// conflict, as it would be behind its mark.
func (in *Inbox[TTx]) keptAlready(ctx context.Context, e *entry, unit store.Unit[TTx], print int64) result {
	_, _ = unit.Rollback(ctx)
	id := e.identity()
	kept, err := in.db.Kept(ctx, store.Sought{Consumer: in.group, Identity: &id}, 1)
	if err != nil {
		return in.failure(ctx, e, in.db.Apply, fmt.Errorf("look up kept message %s: %w", id.ID, err))
	}
	if len(kept) == 0 { // it was finished in between
		return result{entry: e, what: again}
	}
	was := &entry{id: id}
	was.Message = kept[0].Message
	if p := in.print(was); p == 0 || print == 0 || p == print {
		return result{entry: e, what: duplicate, kept: true} // perhaps by us, whose parking took effect and was not answered
	}
	if _, err := in.db.Apply(ctx, store.Effect{Quarantine: apartOf(in.group, e, store.Conflict, print)}); err != nil {
		return in.failure(ctx, e, in.db.Apply, fmt.Errorf("put %s into quarantine: %w", id.ID, err))
	}
	return result{entry: e, what: conflict}
}
