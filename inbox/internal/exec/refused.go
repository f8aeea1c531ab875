package exec

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

// ErrKeyFull is the failure of a dead letter of the kind key_full.
var ErrKeyFull = errors.New("inbox: no more may be parked of its key (Options.Limits.KeyRows, KeyBytes): " +
	"repair the first message of the key, then redrive this letter")

// refused ends an effect of which the store rejected the guard. A rival finished or kept the message, or its
// key is full. Of a full key it becomes a dead letter, which needs no room: else the messages of all other
// keys of its partition would wait behind it.
func (x *Executor[TTx]) refused(ctx context.Context, e *partition.Entry, p *store.Park, err error) Result {
	if r, is := x.keptAs(ctx, e, x.printed(e)); is {
		return r // its take may fail each time, and not find that out
	}
	full := Result{Entry: e, What: decide.Full, Err: fmt.Errorf("%w: %w", ErrFull, Cause(err))}
	if p.Dead != nil || !x.o.DeadRoom() {
		return full
	}
	r := x.untried(ctx, e, form{park: *p, announced: true}, failure.KindKeyFull,
		fmt.Errorf("%w: %w", ErrKeyFull, Cause(err)))
	if r.What == decide.Stale {
		return full // a rival finished it: the next attempt finds out
	}
	return x.lastly(ctx, e, p, r)
}

// lastly ends r, an attempt that the store did not keep. After many of them over minutes, e becomes a dead
// letter: else its partition stops. Of the forms of it the first that the store takes is kept.
func (x *Executor[TTx]) lastly(ctx context.Context, e *partition.Entry, p *store.Park, r Result) Result {
	if r.What != decide.Unkept || !e.Refused.Last(x.o.Now()) {
		return r
	}
	forms := []form{{park: *p, announced: true}, {park: *p}}
	if e.Parked == nil {
		forms = append(forms, form{park: bare(*p)})
	}
	err := fmt.Errorf("%w: %s", errUnkept, shortlog.Text(r.Err.Error(), mostCause))
	for _, f := range forms {
		if out := x.untried(ctx, e, f, failure.KindUnkept, err); out.What != decide.Unkept {
			return out
		}
	}
	return r
}

var errUnkept = errors.New("inbox: the store refused again and again to park it, for a reason that Skald " +
	"does not know: repair the store, then redrive this letter")

const mostCause = 1 << 10 // bytes

// form describes how a message is kept that could not be parked.
type form struct {
	park      store.Park
	announced bool
}

// bare returns p without payload and headers.
func bare(p store.Park) store.Park {
	m := &p.Message
	if failure.Whole(p.Fault) {
		p.Fault = fmt.Sprintf("%sits payload has %d bytes, SHA-256 %x", failure.FaultUnkept, len(m.Data),
			sha256.Sum256(m.Data))
	}
	m.Data, m.Headers = nil, nil
	return p
}

// untried makes a dead letter of a message that the store refused to park.
func (x *Executor[TTx]) untried(ctx context.Context, e *partition.Entry, f form, kind string,
	err error) Result {
	p, now := f.park, x.o.Now()
	x.failed(&p, err.Error(), now, false)
	p.MostRows, p.MostBytes, p.Due = 0, 0, 0
	p.Dead = x.death(kind, failure.Class(kind), e, err, now)
	effect := store.Effect{Park: &p}
	if f.announced {
		effect.Rows = x.o.Announce.Rows(ctx, &p.Parked)
	}
	stands, failed := x.db.Apply(ctx, effect)
	switch {
	case failed != nil:
		return x.unkept(e, failed, err)
	case !stands[0]:
		return Result{Entry: e, What: decide.Stale}
	}
	return Result{Entry: e, What: decide.Dead, Attempts: p.Attempts, Untried: true, Err: err}
}
