package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
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
	r := x.untried(ctx, e, *p, failure.KindKeyFull, fmt.Errorf("%w: %w", ErrKeyFull, Cause(err)))
	if r.What == decide.Stale {
		return full // a rival finished it: the next attempt finds out
	}
	return r
}

// untried makes a dead letter of a message that the store refused to park as p.
func (x *Executor[TTx]) untried(ctx context.Context, e *partition.Entry, p store.Park, kind string,
	err error) Result {
	now := x.o.Now()
	x.failed(&p, err.Error(), now, false)
	p.MostRows, p.MostBytes, p.Due = 0, 0, 0
	p.Dead = x.death(kind, failure.Class(kind), e, err, now)
	stands, failed := x.db.Apply(ctx, store.Effect{Park: &p, Rows: x.o.Announce.Rows(ctx, &p.Parked)})
	switch {
	case failed != nil:
		return x.unkept(e, failed, err)
	case !stands[0]:
		return Result{Entry: e, What: decide.Stale}
	}
	return Result{Entry: e, What: decide.Dead, Attempts: p.Attempts, Untried: true, Err: err}
}
