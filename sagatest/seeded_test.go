package sagatest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// bug removes a safeguard.
type bug struct {
	name  string
	wire  wiring
	load  load
	modes []sagatest.Mode
	found string // the invariant that finds it
	plain bool   // visible without a fault
}

func bugs() []bug {
	crashes, pauses := []sagatest.Mode{sagatest.CrashBefore, sagatest.CrashAfter},
		[]sagatest.Mode{sagatest.Pause}
	return []bug{
		{"ack before commit", wiring{subscribe: sagatest.AckFirst}, largeLoad(), crashes,
			"delivered_to_all", false},
		{"no mark at all", wiring{driver: noMark}, largeLoad(), crashes, "effect_once", false},
		{"mark in its own transaction", wiring{driver: markFirst}, smallLoad(), crashes,
			"effect_once", false},
		{"publish outside the outbox", wiring{driver: dualWrite, unheld: "nothing_made_up"}, largeLoad(),
			crashes, "orders_ended", false},
		{"cursor saved before the broker answered", wiring{publish: unanswered}, largeLoad(), crashes,
			"delivered_to_all", false},
		{"progress without the epoch guard", wiring{database: anyEpoch}, largeLoad(), pauses,
			"cursors_forward", false},
		{"guard that only counts", wiring{driver: countsOnly}, largeLoad(), pauses,
			"rejected_rightly", false},
		{"commit taken for done whatever it answers", wiring{driver: deaf}, largeLoad(), pauses,
			"delivered_to_all", false},
		{"what a rejection says goes with what is rolled back", wiring{driver: saysInVain}, largeLoad(),
			crashes, "orders_ended", true},
		{"a message known by where it lies at the broker", wiring{identity: inbox.ByPosition}, largeLoad(),
			crashes, "effect_once", false},
	}
}

// TestSeededBugs: the explorer finds each bug, by the intended invariant, and the schedule that finds it
// does no harm without the bug.
func TestSeededBugs(t *testing.T) {
	for _, b := range bugs() {
		t.Run(b.name, func(t *testing.T) {
			why, r := b.show(t, sampled(300))
			if why == "" && sampled(1) > 0 { // a sample may miss it
				why, r = b.show(t, 0)
			}
			if why == "" {
				t.Errorf("%s did not find it: %v", b.found, r)
			}
			for _, f := range r.Failures[:min(3, len(r.Failures))] {
				t.Logf("%s: %v", f.Schedule, f.Broken)
			}
		})
	}
}

// show searches for the bug in a sample of the schedules, or in all if 0. It returns the report of the
// invariant.
func (b bug) show(t *testing.T, sample int) (why string, r sagatest.Report) {
	t.Helper()
	r, err := sagatest.Search(t.Context(), build(b.load, b.wire),
		&sagatest.Options{Modes: b.modes, Sample: sample, Failures: 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Failures {
		if why = foundBy(f, b.found); why != "" {
			t.Logf("%s, found in %d schedules: %s", f.Schedule, r.Schedules, why)
			b.absent(t, f.Schedule)
			return why, sagatest.Report{}
		}
	}
	return "", r
}

// foundBy returns the report of an invariant in a failure.
func foundBy(f sagatest.Failure, invariant string) string {
	for _, why := range f.Broken {
		if first, _, _ := strings.Cut(why, "\n"); strings.HasPrefix(first, invariant+":") {
			return first
		}
	}
	return ""
}

// absent checks that the same schedule finds nothing without the bug.
func (b bug) absent(t *testing.T, s sagatest.Schedule) {
	t.Helper()
	if plain := len(s) == 0; plain != b.plain {
		t.Errorf("it is found without a fault: %v", plain)
	}
	if len(s) == 0 { // TestExploreModelEverySingleFault begins with that
		return
	}
	r, err := sagatest.Search(t.Context(), build(b.load, wiring{}),
		&sagatest.Options{Schedules: []sagatest.Schedule{s}})
	if err != nil || len(r.Failures) > 0 || r.Schedules != 1 {
		t.Errorf("the same without the bug: %v %v", r, err)
	}
}

func noMark(d db, _ broker.Broker, _ string) db { return sagatest.NoMark(d) }

func dualWrite(d db, to broker.Broker, service string) db {
	return sagatest.DualWrite(d, to, "/"+service)
}

// markFirst marks a message in its own transaction before the handler's.
func markFirst(d db, _ broker.Broker, _ string) db { return markingFirst{d} }

type markingFirst struct{ db }

func (d markingFirst) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	verdicts := make([]store.Verdict, len(in.Marks))
	for i := range in.Marks {
		stood, err := d.Apply(ctx, store.Effect{Mark: &in.Marks[i]})
		if err != nil {
			return nil, err
		}
		if !stood[0] {
			verdicts[i].Outcome = store.Done
		}
	}
	in.Marks = nil
	u, err := d.db.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return foundUnit{u, verdicts}, nil
}

type foundUnit struct {
	store.Unit[*memstore.Tx]
	verdicts []store.Verdict
}

func (u foundUnit) Found() store.Found {
	f := u.Unit.Found()
	f.Marks = u.verdicts
	return f
}

func (u foundUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	for i := range instead {
		instead[i].Mark = nil
	}
	return u.Unit.Rollback(ctx, instead...)
}

// unanswered reports that all messages are published, and publishes them at the next step.
func unanswered(p *sagatest.Process, b broker.Broker) broker.Broker {
	l := &later{Broker: b}
	p.Step(l)
	return l
}

type later struct {
	broker.Broker
	waiting []skald.Message
}

type durable struct{}

func (durable) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (durable) Wait(context.Context) error { return nil }

func (l *later) Publish(_ context.Context, msgs []skald.Message, _ ...broker.Topics) broker.Pending {
	l.waiting = append(l.waiting, msgs...)
	return durable{}
}

func (l *later) Step(ctx context.Context) (bool, error) {
	if len(l.waiting) == 0 {
		return false, nil
	}
	msgs := l.waiting
	l.waiting = nil
	return true, l.Broker.Publish(ctx, msgs).Wait(ctx)
}

// anyEpoch adds a bug: the driver stores progress without a check of the shard's owner.
func anyEpoch(raw *memstore.Store) db { return unfenced{raw} }

type unfenced struct{ *memstore.Store }

func (d unfenced) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	for i := range es {
		if es[i].Shard == nil {
			continue
		}
		p := *es[i].Shard
		for _, l := range d.Shards() {
			if l.ID == p.Shard {
				p.Epoch, p.Token = l.Epoch, l.Token
			}
		}
		es[i].Shard = &p
	}
	return d.Store.Apply(ctx, es...)
}

// countsOnly adds a bug: the driver applies an effect although the guard is lost.
func countsOnly(d db, _ broker.Broker, _ string) db { return counting{d} }

type counting struct{ db }

func (d counting) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	u, err := d.db.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return countingUnit{u}, nil
}

type countingUnit struct{ store.Unit[*memstore.Tx] }

func (u countingUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	for i := range instead {
		for j := range instead[i].Locks {
			instead[i].Locks[j].Version = 0
		}
	}
	return u.Unit.Rollback(ctx, instead...)
}

// saysInVain adds a bug: it writes the events of a rejection into the transaction that is rolled back.
func saysInVain(d db, _ broker.Broker, _ string) db { return vain{d} }

type vain struct{ db }

func (d vain) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	u, err := d.db.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return vainUnit{u}, nil
}

type vainUnit struct{ store.Unit[*memstore.Tx] }

func (u vainUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	for i := range instead {
		instead[i].Rows = nil
	}
	return u.Unit.Rollback(ctx, instead...)
}

// deaf adds a bug: the driver reports each commit as successful, even after a rollback.
func deaf(d db, _ broker.Broker, _ string) db { return deafDriver{d} }

type deafDriver struct{ db }

func (d deafDriver) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	u, err := d.db.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return deafUnit{u}, nil
}

type deafUnit struct{ store.Unit[*memstore.Tx] }

func (u deafUnit) Commit(ctx context.Context, es ...store.Effect) error {
	err := u.Unit.Commit(ctx, es...)
	if errors.Is(err, sagatest.ErrCrashed) {
		return err
	}
	return nil
}
