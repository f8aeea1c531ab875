package sagatest

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald/store"
)

// WrapDriver injects faults into d. What d lends is lent through it untouched.
func WrapDriver[TTx any](d store.Driver[TTx], f *Faults) store.Driver[TTx] {
	w := &faultyDriver[TTx]{Driver: d, f: f}
	if wakes, ok := d.(store.Waker); ok {
		return struct {
			*faultyDriver[TTx]
			store.Waker
		}{w, wakes}
	}
	return w
}

type faultyDriver[TTx any] struct {
	store.Driver[TTx]
	f *Faults
}

func (d *faultyDriver[TTx]) Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error) {
	of := marked(in.Marks)
	if err := d.f.liveWith(of); err != nil {
		return nil, err
	}
	if err := d.f.strike(BeginFailed, d.f.rates.BeginFails, of); err != nil {
		return nil, err
	}
	if d.f.hit(SlowConsumer, d.f.rates.Slow) {
		d.f.told(SlowConsumer, of)
		if err := pause(ctx, d.f.duration(d.f.rates.SlowFor)); err != nil {
			return nil, err
		}
	}
	u, err := d.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return faultyOf(d.f, u, of), nil
}

// marked are the messages of an intake.
func marked(marks []store.Mark) []store.Identity {
	of := make([]store.Identity, len(marks))
	for i := range marks {
		of[i] = marks[i].Identity
	}
	return of
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (d *faultyDriver[TTx]) Write(ctx context.Context, tx TTx, es ...store.Effect) error {
	if err := d.f.alive(); err != nil {
		return err
	}
	return d.Driver.Write(ctx, tx, es...)
}

func (d *faultyDriver[TTx]) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	if err := d.f.live(); err != nil {
		return make([]bool, len(es)), err
	}
	stood, err := d.Driver.Apply(ctx, es...)
	if err == nil {
		err = d.f.after(ApplyUnknown, d.f.rates.ApplyUnknown, nil)
	}
	return stood, err
}

func (d *faultyDriver[TTx]) Tick(ctx context.Context, base string) (string, error) {
	if err := d.f.live(); err != nil {
		return base, err
	}
	tip, err := d.Driver.Tick(ctx, base)
	if err == nil && tip != base {
		err = d.f.after(TickUnknown, d.f.rates.TickUnknown, nil)
	}
	return tip, err
}

// after is what can go wrong once a call has taken effect.
func (f *Faults) after(kind string, rate float64, of []store.Identity) error {
	if err := f.strike(kind, rate, of); err != nil {
		return err
	}
	return f.liveWith(of)
}

func (d *faultyDriver[TTx]) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.Driver.Seen(ctx, consumer, ids)
}

func (d *faultyDriver[TTx]) Enter(ctx context.Context, tx TTx, in store.Intake) (store.Found, error) {
	if err := d.f.alive(); err != nil {
		return store.Found{}, err
	}
	return d.Driver.Enter(ctx, tx, in)
}

func (d *faultyDriver[TTx]) Secret(ctx context.Context) ([]byte, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.Driver.Secret(ctx)
}

func (d *faultyDriver[TTx]) Quarantined(ctx context.Context, q store.Query) ([]store.Quarantined, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.Driver.Quarantined(ctx, q)
}

func (d *faultyDriver[TTx]) Admit(ctx context.Context, numbers []int64, by, reason string) (int, error) {
	if err := d.f.alive(); err != nil {
		return 0, err
	}
	return d.Driver.Admit(ctx, numbers, by, reason)
}

func (d *faultyDriver[TTx]) Lease(ctx context.Context, ask store.Ask) (store.Leased, error) {
	if err := d.f.alive(); err != nil {
		return store.Leased{}, err
	}
	return d.Driver.Lease(ctx, ask)
}

func (d *faultyDriver[TTx]) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	if err := d.f.live(); err != nil {
		return store.Page{}, err
	}
	return d.Driver.Pull(ctx, w, limit)
}

func (d *faultyDriver[TTx]) Held(ctx context.Context, lanes []int) ([]store.Held, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.Driver.Held(ctx, lanes)
}

func (d *faultyDriver[TTx]) Retry(ctx context.Context, lanes []int, limit int) ([]store.Aside, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.Driver.Retry(ctx, lanes, limit)
}

func (d *faultyDriver[TTx]) Claim(ctx context.Context, consumer, life string, most store.Portion, lease time.Duration, not ...store.Kind) (store.Claimed, error) {
	if err := d.f.alive(); err != nil {
		return store.Claimed{}, err
	}
	return d.Driver.Claim(ctx, consumer, life, most, lease, not...)
}

func (d *faultyDriver[TTx]) Kept(ctx context.Context, what store.Sought, limit int) ([]store.Parked, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.Driver.Kept(ctx, what, limit)
}

func (d *faultyDriver[TTx]) Keeping(ctx context.Context, consumer string) (store.Keeping, error) {
	if err := d.f.alive(); err != nil {
		return store.Keeping{}, err
	}
	return d.Driver.Keeping(ctx, consumer)
}

func (d *faultyDriver[TTx]) Own(ctx context.Context, what, owner string, ttl time.Duration) (bool, error) {
	if err := d.f.alive(); err != nil {
		return false, err
	}
	return d.Driver.Own(ctx, what, owner, ttl)
}

func (d *faultyDriver[TTx]) Keeps(ctx context.Context) (store.Retention, error) {
	if err := d.f.alive(); err != nil {
		return store.Retention{}, err
	}
	return d.Driver.Keeps(ctx)
}

func (d *faultyDriver[TTx]) Audited(ctx context.Context, run string, after int64, limit int) ([]store.Audit, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.Driver.Audited(ctx, run, after, limit)
}

func (d *faultyDriver[TTx]) AuditedLast(ctx context.Context, before int64, limit int) ([]store.Audit, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.Driver.AuditedLast(ctx, before, limit)
}

func (d *faultyDriver[TTx]) Spots(ctx context.Context, consumer string) (store.Spots, error) {
	if err := d.f.alive(); err != nil {
		return store.Spots{}, err
	}
	return d.Driver.Spots(ctx, consumer)
}

func (d *faultyDriver[TTx]) Kinds(ctx context.Context, consumer string, own []store.Kind, forget time.Duration) ([]store.Kind, error) {
	if err := d.f.live(); err != nil {
		return nil, err
	}
	out, err := d.Driver.Kinds(ctx, consumer, own, forget)
	if err == nil && len(own) > 0 {
		err = d.f.after(ApplyUnknown, d.f.rates.ApplyUnknown, nil)
	}
	return out, err
}

func (d *faultyDriver[TTx]) Occupy(ctx context.Context, consumer, life, note string, lanes []store.Spot) (store.Spots, error) {
	if err := d.f.live(); err != nil {
		return store.Spots{}, err
	}
	return d.Driver.Occupy(ctx, consumer, life, note, lanes)
}

func (d *faultyDriver[TTx]) Advance(ctx context.Context, consumer, server, note string, lanes []store.Spot) (store.Spots, error) {
	if err := d.f.live(); err != nil {
		return store.Spots{}, err
	}
	out, err := d.Driver.Advance(ctx, consumer, server, note, lanes)
	if err == nil && len(lanes) > 0 {
		err = d.f.after(ApplyUnknown, d.f.rates.ApplyUnknown, nil)
	}
	return out, err
}

func (d *faultyDriver[TTx]) Maintain(ctx context.Context, keep store.Retention) (store.Maintained, error) {
	if err := d.f.alive(); err != nil {
		return store.Maintained{}, err
	}
	return d.Driver.Maintain(ctx, keep)
}

func (d *faultyDriver[TTx]) Reseat(ctx context.Context, note *store.Audit) (store.Reseated, error) {
	if err := d.f.alive(); err != nil {
		return store.Reseated{}, err
	}
	return d.Driver.Reseat(ctx, note)
}

func (d *faultyDriver[TTx]) Backlog(ctx context.Context) (store.Backlog, error) {
	if err := d.f.alive(); err != nil {
		return store.Backlog{}, err
	}
	return d.Driver.Backlog(ctx)
}

func (d *faultyDriver[TTx]) Check(ctx context.Context, as store.Role) error {
	if err := d.f.alive(); err != nil {
		return err
	}
	return d.Driver.Check(ctx, as)
}

// Outage: an injected fault is one.
func (d *faultyDriver[TTx]) Outage(err error) bool {
	var fault *FaultError
	return errors.As(err, &fault) || d.Driver.Outage(err)
}

type faultyUnit[TTx any] struct {
	store.Unit[TTx]
	f  *Faults
	of []store.Identity
}

// A faultyFollower is that of a store that can begin a unit with the commit of another.
type faultyFollower[TTx any] struct {
	*faultyUnit[TTx]
	to store.Follower[TTx]
}

func faultyOf[TTx any](f *Faults, u store.Unit[TTx], of []store.Identity) store.Unit[TTx] {
	faulty := &faultyUnit[TTx]{Unit: u, f: f, of: of}
	if to, ok := u.(store.Follower[TTx]); ok {
		return &faultyFollower[TTx]{faulty, to}
	}
	return faulty
}

func (u *faultyFollower[TTx]) CommitThen(ctx context.Context, next store.Intake, es ...store.Effect) (store.Unit[TTx], error) {
	of := marked(next.Marks)
	if u.f.strike(BeginFailed, u.f.rates.BeginFails, of) != nil {
		return nil, u.Commit(ctx, es...)
	}
	if err := u.mayCommit(ctx); err != nil {
		return nil, err
	}
	then, err := u.to.CommitThen(ctx, next, es...)
	if err != nil {
		return nil, err
	}
	if err := u.f.after(CommitUnknown, u.f.rates.CommitUnknown, u.of); err != nil {
		if then != nil {
			_, _ = then.Rollback(ctx)
		}
		return nil, err
	}
	if then == nil {
		return nil, nil
	}
	return faultyOf(u.f, then, of), nil
}

// mayCommit is for faults before a commit, which is rolled back then: its rows are undone in any case.
func (u *faultyUnit[TTx]) mayCommit(ctx context.Context) error {
	err := u.f.liveWith(u.of)
	if err == nil {
		err = u.f.strike(CommitFailed, u.f.rates.CommitFails, u.of)
	}
	if err != nil {
		_, _ = u.Unit.Rollback(ctx)
	}
	return err
}

func (u *faultyUnit[TTx]) Commit(ctx context.Context, es ...store.Effect) error {
	if err := u.mayCommit(ctx); err != nil {
		return err
	}
	if err := u.Unit.Commit(ctx, es...); err != nil {
		return err
	}
	return u.f.after(CommitUnknown, u.f.rates.CommitUnknown, u.of)
}

func (u *faultyUnit[TTx]) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	if err := u.f.liveWith(u.of); err != nil {
		_, _ = u.Unit.Rollback(ctx) // its rows are undone in any case
		return make([]bool, len(instead)), err
	}
	stood, err := u.Unit.Rollback(ctx, instead...)
	if err == nil && len(instead) > 0 {
		err = u.f.after(ApplyUnknown, u.f.rates.ApplyUnknown, u.of)
	}
	return stood, err
}
