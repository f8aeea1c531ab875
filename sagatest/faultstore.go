package sagatest

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// WrapDriver returns d with faults. Its transactions are those of d.
func WrapDriver[TTx any](d store.Driver[TTx], f *Faults) store.Driver[TTx] {
	return &faultyDriver[TTx]{d: d, f: f}
}

// faultyDriver does not embed d, so that a new method of store.Driver cannot bypass the faults.
type faultyDriver[TTx any] struct {
	d store.Driver[TTx]
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
	u, err := d.d.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return faultyOf(d.f, u, of), nil
}

// marked returns the identities of the messages of an intake.
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
	return d.d.Write(ctx, tx, es...)
}

func (d *faultyDriver[TTx]) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	if err := d.f.live(); err != nil {
		return make([]bool, len(es)), err
	}
	stored, err := d.d.Apply(ctx, es...)
	if err == nil {
		err = d.f.faultAfter(ApplyUnknown, d.f.rates.ApplyUnknown, nil)
	}
	return stored, err
}

// faultAfter returns the fault of a call that has taken effect, or nil.
func (f *Faults) faultAfter(kind string, rate float64, messages []store.Identity) error {
	if err := f.strike(kind, rate, messages); err != nil {
		return err
	}
	return f.liveWith(messages)
}

func (d *faultyDriver[TTx]) Seen(ctx context.Context, consumer string,
	ids []store.Identity) ([]store.Verdict, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.d.Seen(ctx, consumer, ids)
}

func (d *faultyDriver[TTx]) Enter(ctx context.Context, tx TTx, in store.Intake) (store.Found, error) {
	if err := d.f.alive(); err != nil {
		return store.Found{}, err
	}
	return d.d.Enter(ctx, tx, in)
}

func (d *faultyDriver[TTx]) Database(ctx context.Context) (store.Database, error) {
	if err := d.f.alive(); err != nil {
		return store.Database{}, err
	}
	return d.d.Database(ctx)
}

func (d *faultyDriver[TTx]) Secret(ctx context.Context) ([]byte, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.d.Secret(ctx)
}

func (d *faultyDriver[TTx]) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	if ask.Owner != "" {
		if err := d.f.alive(); err != nil {
			return store.Leased{}, err
		}
		return d.d.Lease(ctx, ask)
	}
	if err := d.f.live(); err != nil {
		return store.Leased{}, err
	}
	got, err := d.d.Lease(ctx, ask)
	if err == nil && ask.SnapshotBase != nil && got.Tip != *ask.SnapshotBase {
		err = d.f.faultAfter(TickUnknown, d.f.rates.TickUnknown, nil)
	}
	return got, err
}

func (d *faultyDriver[TTx]) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	if err := d.f.live(); err != nil {
		return store.Page{}, err
	}
	return d.d.Pull(ctx, w, limit)
}

func (d *faultyDriver[TTx]) Deferred(ctx context.Context, q store.DeferredQuery) (store.Deferred, error) {
	if err := d.f.alive(); err != nil {
		return store.Deferred{}, err
	}
	return d.d.Deferred(ctx, q)
}

func (d *faultyDriver[TTx]) Claim(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	if w.Sagas != nil {
		return d.claimSagas(ctx, w)
	}
	if err := d.f.alive(); err != nil {
		return store.Claimed{}, err
	}
	return d.d.Claim(ctx, w)
}

func (d *faultyDriver[TTx]) claimSagas(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	if err := d.f.live(); err != nil {
		return store.Claimed{}, err
	}
	out, err := d.d.Claim(ctx, w)
	if err == nil && len(out.Sagas) > 0 {
		err = d.f.faultAfter(ApplyUnknown, d.f.rates.ApplyUnknown, nil)
	}
	return out, err
}

func (d *faultyDriver[TTx]) Reserve(ctx context.Context, r store.Reservation) (store.Reserved, error) {
	if err := d.f.live(); err != nil {
		return store.Reserved{}, err
	}
	out, err := d.d.Reserve(ctx, r)
	if err == nil && out.Outcome == store.Fresh && !out.Rival {
		err = d.f.faultAfter(ApplyUnknown, d.f.rates.ApplyUnknown, nil)
	}
	return out, err
}

func (d *faultyDriver[TTx]) SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error) {
	look := d.f.live
	if len(a.Checkpoints) == 0 && a.Heartbeat == nil {
		look = d.f.alive
	}
	if err := look(); err != nil {
		return store.SyncResult{}, err
	}
	out, err := d.d.SyncConsumer(ctx, a)
	if err == nil && !a.Take && (len(a.Checkpoints) > 0 || a.Heartbeat != nil && len(a.Heartbeat.Own) > 0) {
		err = d.f.faultAfter(ApplyUnknown, d.f.rates.ApplyUnknown, nil)
	}
	return out, err
}

func (d *faultyDriver[TTx]) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
	if err := d.f.alive(); err != nil {
		return store.Maintained{}, err
	}
	return d.d.Maintain(ctx, m)
}

func (d *faultyDriver[TTx]) Recover(ctx context.Context, note *store.Audit) (store.Recovered, error) {
	if err := d.f.alive(); err != nil {
		return store.Recovered{}, err
	}
	return d.d.Recover(ctx, note)
}

func (d *faultyDriver[TTx]) List(ctx context.Context, l store.List) (store.Listed, error) {
	if err := d.f.alive(); err != nil {
		return store.Listed{}, err
	}
	return d.d.List(ctx, l)
}

func (d *faultyDriver[TTx]) Audits(ctx context.Context, q store.AuditQuery) ([]store.Audit, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.d.Audits(ctx, q)
}

func (d *faultyDriver[TTx]) Status(ctx context.Context, q store.StatusQuery) (store.Status, error) {
	if err := d.f.alive(); err != nil {
		return store.Status{}, err
	}
	return d.d.Status(ctx, q)
}

func (d *faultyDriver[TTx]) Check(ctx context.Context, as store.Role) error {
	if err := d.f.alive(); err != nil {
		return err
	}
	return d.d.Check(ctx, as)
}

func (d *faultyDriver[TTx]) Rename(ctx context.Context, r store.Rename) (store.Renamed, error) {
	if err := d.f.alive(); err != nil {
		return store.Renamed{}, err
	}
	return d.d.Rename(ctx, r)
}

func (d *faultyDriver[TTx]) Examine(ctx context.Context, e store.Exam) ([]skald.Finding, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.d.Examine(ctx, e)
}

func (d *faultyDriver[TTx]) Probe(ctx context.Context) error {
	if err := d.f.alive(); err != nil {
		return err
	}
	return d.d.Probe(ctx)
}

func (d *faultyDriver[TTx]) Woken() <-chan struct{} { return d.d.Woken() }

// Outage reports an injected fault as an outage.
func (d *faultyDriver[TTx]) Outage(err error) bool {
	var fault *FaultError
	return errors.As(err, &fault) || d.d.Outage(err)
}

type faultyUnit[TTx any] struct {
	u  store.Unit[TTx]
	f  *Faults
	of []store.Identity
}

func faultyOf[TTx any](f *Faults, u store.Unit[TTx], of []store.Identity) store.Unit[TTx] {
	return &faultyUnit[TTx]{u: u, f: f, of: of}
}

func (u *faultyUnit[TTx]) Tx() TTx            { return u.u.Tx() }
func (u *faultyUnit[TTx]) Found() store.Found { return u.u.Found() }

func (u *faultyUnit[TTx]) CommitThen(ctx context.Context, next store.Intake,
	es ...store.Effect) (store.Unit[TTx], error) {
	of := marked(next.Marks)
	if u.f.strike(BeginFailed, u.f.rates.BeginFails, of) != nil {
		return nil, u.Commit(ctx, es...)
	}
	if err := u.mayCommit(ctx); err != nil {
		return nil, err
	}
	then, err := u.u.CommitThen(ctx, next, es...)
	if err != nil {
		return nil, err
	}
	if err := u.f.faultAfter(CommitUnknown, u.f.rates.CommitUnknown, u.of); err != nil {
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

// mayCommit returns a fault that happens before a commit, or nil. After a fault the transaction is rolled
// back.
func (u *faultyUnit[TTx]) mayCommit(ctx context.Context) error {
	err := u.f.liveWith(u.of)
	if err == nil {
		err = u.f.strike(CommitFailed, u.f.rates.CommitFails, u.of)
	}
	if err != nil {
		_, _ = u.u.Rollback(ctx)
	}
	return err
}

// Outage reports an injected fault as an outage.
func (u *faultyUnit[TTx]) Outage(ctx context.Context, err error) bool {
	var fault *FaultError
	return errors.As(err, &fault) || u.u.Outage(ctx, err)
}

func (u *faultyUnit[TTx]) Return() { u.u.Return() }
func (u *faultyUnit[TTx]) Drop()   { u.u.Drop() }

func (u *faultyUnit[TTx]) Savepoint(ctx context.Context) bool { return u.u.Savepoint(ctx) }
func (u *faultyUnit[TTx]) Undo(ctx context.Context) error     { return u.u.Undo(ctx) }

func (u *faultyUnit[TTx]) Usable(ctx context.Context) error { return u.u.Usable(ctx) }

func (u *faultyUnit[TTx]) Commit(ctx context.Context, es ...store.Effect) error {
	if err := u.mayCommit(ctx); err != nil {
		return err
	}
	if err := u.u.Commit(ctx, es...); err != nil {
		return err
	}
	return u.f.faultAfter(CommitUnknown, u.f.rates.CommitUnknown, u.of)
}

func (u *faultyUnit[TTx]) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	if err := u.f.liveWith(u.of); err != nil {
		_, _ = u.u.Rollback(ctx) // roll back in any case
		return make([]bool, len(instead)), err
	}
	stored, err := u.u.Rollback(ctx, instead...)
	if err == nil && len(instead) > 0 {
		err = u.f.faultAfter(ApplyUnknown, u.f.rates.ApplyUnknown, u.of)
	}
	return stored, err
}
