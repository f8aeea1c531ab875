package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// parking is a world with one consumer in two processes. Some messages fail for a while, and one fails until
// an operator redrives it.
type parking[TTx any] struct {
	w     *sagatest.World
	on    *ground[TTx]
	wrap  func(store.Driver[TTx]) store.Driver[TTx]
	free  bool // a dead letter does not block its key
	batch int
	runs  map[string]int // by payload: number of remaining failures
}

// messages returns the messages in the order of publishing, by key. A failing message contains its number of
// failures. After the first three a batch of the default size has grown to four messages.
func (p *parking[TTx]) messages() (out []skald.Message) {
	for i, text := range []string{"d1", "d2", "d3",
		"a1", "a2!", "b1", "bx", "a3", "c1!", "b2", "a4!", "c2", "b3", "a5", "c3"} {
		m := skald.Message{ID: fmt.Sprintf("m-%02d", i), Source: "/other", Type: "said", Topic: "orders",
			Key: []byte(text[:1]), Data: fmt.Appendf(nil, "%q", text)}
		if text == "c2" {
			m.Topic = "payments" // a key covers all topics
		}
		out = append(out, m)
	}
	return out
}

func buildParking[TTx any](open opening[TTx], wrap func(store.Driver[TTx]) store.Driver[TTx], free bool,
	batch int) func(*sagatest.World) error {
	return func(w *sagatest.World) error {
		on, err := open(w)
		if err != nil {
			return err
		}
		p := &parking[TTx]{w: w, on: on, wrap: wrap, free: free, batch: batch,
			runs: map[string]int{"a2!": 2, "c1!": 1, "a4!": 1}}
		bus := membroker.New(nil)
		if err := bus.MakeTopics(context.Background(), 1, "orders", "payments"); err != nil {
			return err
		}
		for _, m := range p.messages() {
			if err := bus.Publish(context.Background(),
				[]skald.Message{m}).Wait(context.Background()); err != nil {
				return err
			}
		}
		for _, name := range []string{"one", "two"} {
			w.Process(name, func(proc *sagatest.Process) error { return p.session(proc, name, bus) })
		}
		w.Process("operator", func(proc *sagatest.Process) error {
			proc.Step(&redriver[TTx]{p: p, db: on.session(proc)})
			return nil
		})
		w.Finally("each_once_in_order", p.holds)
		w.Finally("nothing_kept", func() error { return empty(on.raw) })
		return nil
	}
}

func (p *parking[TTx]) session(proc *sagatest.Process, name string, bus *membroker.Broker) error {
	d := p.on.session(proc)
	if p.wrap != nil {
		d = p.wrap(d)
	}
	in := inbox.New(d, sagatest.CrashBroker(proc, bus.Client()), "consumer", &inbox.Options{
		Now: p.w.Now, NewID: p.w.NewID, Logger: slog.New(slog.DiscardHandler),
		Instance: inbox.Instance{Member: name},
		Timeouts: inbox.Timeouts{Wait: time.Millisecond, Handle: time.Second},
		Retry: inbox.Retry{InitialInterval: time.Microsecond, MaxInterval: time.Millisecond,
			Attempts: 3}, Dead: inbox.Dead{FreeKey: p.free},
		Workers: 1, Batch: p.batch,
	})
	for _, topic := range []string{"orders", "payments"} {
		inbox.On(in, skald.Event[string]{Topic: topic, Type: "said"}, p.handle)
	}
	proc.Step(in)
	return nil
}

func (p *parking[TTx]) handle(_ context.Context, tx TTx, m skald.Received[string]) error {
	if err := p.on.update(tx, string(m.Key),
		func(old string) string { return old + m.Value + " " }); err != nil {
		return err
	}
	_, redriven, err := p.on.get(tx, "redriven")
	switch {
	case err != nil:
		return err
	case m.Value == "bx" && !redriven:
		return skald.Permanent(errors.New("never"))
	case p.runs[m.Value] > 0:
		p.runs[m.Value]--
		return errors.New("not yet")
	}
	return nil
}

// redriver redrives dead letters, with audit records, until no more are expected.
type redriver[TTx any] struct {
	p    *parking[TTx]
	db   store.Driver[TTx]
	turn int
	told bool // the cause of the failures is removed
}

func (r *redriver[TTx]) Step(ctx context.Context) (bool, error) {
	if r.turn++; r.turn < 12 {
		return true, nil
	}
	if !r.told {
		if err := r.p.on.put("redriven", "yes"); err != nil {
			return true, err
		}
		r.told = true
	}
	yes := true
	dead, err := store.ListParked(ctx, r.db, store.ParkedQuery{Dead: &yes, Bare: true, Limit: 10})
	if err != nil || len(dead) == 0 {
		return false, err
	}
	d := dead[0]
	if d.Dead.Kind != "permanent" {
		return false, nil // only a bug causes that
	}
	_, err = r.db.Apply(ctx, store.Effect{Requeue: &store.Requeue{Consumer: d.Consumer, Identity: d.Identity},
		Audit: &store.Audit{Author: "ann", Action: "redrive", Consumer: d.Consumer, Identity: d.Identity}})
	return true, err
}

// holds checks the effects of each key.
func (p *parking[TTx]) holds() error {
	user, err := p.on.user()
	if err != nil {
		return err
	}
	want := map[string]string{"a": "a1 a2! a3 a4! a5", "b": "b1 bx b2 b3", "d": "d1 d2 d3"}
	for key, effects := range want {
		got := strings.TrimSpace(user[key])
		if key == "b" && p.free { // the effect is at the time of the redrive
			got, effects = strings.Join(strings.Fields(strings.Replace(got, "bx", "", 1)), " "), "b1 b2 b3"
			if strings.Count(user[key], "bx") != 1 {
				return fmt.Errorf("the dead letter's effect is there %d times: %s",
					strings.Count(user[key], "bx"), user[key])
			}
		}
		if got != effects {
			return fmt.Errorf("%s has %q, want %q", key, got, effects)
		}
	}
	// c2 has another topic: only its own effect is promised.
	c := strings.Fields(user["c"])
	if len(c) != 3 || strings.Index(user["c"], "c1!") > strings.Index(user["c"], "c3") ||
		!strings.Contains(user["c"], "c2") {
		return fmt.Errorf("c has %q", user["c"])
	}
	return nil
}

// empty checks that no message is parked or a dead letter.
func empty(db store.Store) error {
	kept, err := store.ListParked(context.Background(), db, store.ParkedQuery{Limit: 100})
	if err == nil && len(kept) > 0 {
		err = fmt.Errorf("%d are kept, the first is %s: %s", len(kept), kept[0].ID, kept[0].Last.Why)
	}
	return err
}

// TestExploreParkingEverySingleFault injects each fault at each I/O of parking, retries, dead letters and a
// redrive.
// Interleaving 12.
func TestExploreParkingEverySingleFault(t *testing.T) {
	for name, free := range map[string]bool{"dead letters hold their keys": false,
		"dead letters free their keys": true} {
		t.Run(name, func(t *testing.T) {
			sagatest.Explore(t, buildParking(inMemory, nil, free, 1),
				&sagatest.Options{Rest: 40 * time.Second, Sample: sampled(200), Failures: 3})
		})
	}
}

// TestExploreBatchesEverySingleFault is the same with batches, of the default size (0) too. A failure undoes
// all messages of its transaction, and so does a crash at any point.
// Interleaving 14.
func TestExploreBatchesEverySingleFault(t *testing.T) {
	for name, free := range map[string]bool{"dead letters hold their keys": false,
		"dead letters free their keys": true} {
		for _, batch := range []int{5, 0} {
			t.Run(fmt.Sprintf("%s, batch %d", name, batch), func(t *testing.T) {
				sagatest.Explore(t, buildParking(inMemory, nil, free, batch),
					&sagatest.Options{Rest: 40 * time.Second, Sample: sampled(200), Failures: 3})
			})
		}
	}
}

// TestSeededBugsOfBatches: a batch is acknowledged, or committed, in part.
// Interleaving 14.
func TestSeededBugsOfBatches(t *testing.T) {
	for name, wrap := range map[string]func(db) db{
		"the marks of a batch that failed stay": func(d db) db { return marksStay{d} },
		"a message behind a parked one shares":  func(d db) db { return overtaking{d} },
		"what is kept gets a mark":              func(d db) db { return marksKept{d} },
	} {
		t.Run(name, func(t *testing.T) {
			r, err := sagatest.Search(t.Context(), buildParking(inMemory, wrap, false, 5),
				&sagatest.Options{Rest: 40 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Failures) == 0 {
				t.Fatalf("no invariant finds it: %v", r)
			}
			t.Logf("%v in %d schedules: %s", r.Failures[0].Schedule, r.Schedules, r.Failures[0].Broken[0])
		})
	}
}

// marksStay commits the marks of a batch whose handlers failed.
type marksStay struct{ db }

func (d marksStay) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	u, err := d.db.Begin(ctx, in)
	if err != nil || len(in.Marks) < 2 {
		return u, err
	}
	return unitMarksStay{u, d, in.Marks}, nil
}

type unitMarksStay struct {
	store.Unit[*memstore.Tx]
	d  marksStay
	ms []store.Mark
}

func (u unitMarksStay) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	stands, err := u.Unit.Rollback(ctx, instead...)
	for i := range u.ms {
		_, _ = u.d.Apply(ctx, store.Effect{Mark: &u.ms[i]})
	}
	return stands, err
}

// marksKept adds a bug: the marks of parked messages in a batch are committed.
type marksKept struct{ db }

func (d marksKept) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	u, err := d.db.Begin(ctx, in)
	if err != nil || len(in.Marks) < 2 {
		return u, err
	}
	return unitMarksKept{u, in.Marks}, nil
}

type unitMarksKept struct {
	store.Unit[*memstore.Tx]
	ms []store.Mark
}

func (u unitMarksKept) Commit(ctx context.Context, es ...store.Effect) error {
	for i, v := range u.Found().Marks {
		if v.Outcome == store.Behind || v.Outcome == store.Waiting {
			m := u.ms[i]
			m.KeyOrder = store.Anytime
			es = append(es, store.Effect{Mark: &m})
		}
	}
	return u.Unit.Commit(ctx, es...)
}

// TestSeededBugsOfParking: each bug removes a safeguard of parking.
// Interleaving 12.
func TestSeededBugsOfParking(t *testing.T) {
	for name, b := range map[string]struct {
		wrap  func(db) db
		modes []sagatest.Mode
	}{
		"parked behind the acknowledgement":       {func(d db) db { return &parksLate{db: d} }, nil},
		"attempts charged for outages":            {func(d db) db { return charging{d} }, nil},
		"a fresh message overtakes its key":       {func(d db) db { return overtaking{d} }, nil},
		"deleted when claimed, not at the commit": {func(d db) db { return deletesFirst{d} }, nil},
		"a key looked at, and not locked": {func(d db) db { return looksFirst{d} },
			[]sagatest.Mode{sagatest.Pause}},
		"whatever is free is claimed of a key": {func(d db) db { return claimsAny{d} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := sagatest.Search(t.Context(), buildParking(inMemory, b.wrap, false, 1),
				&sagatest.Options{Rest: 40 * time.Second, Modes: b.modes})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Failures) == 0 {
				t.Fatalf("no invariant finds it: %v", r)
			}
			t.Logf("%v in %d schedules: %s", r.Failures[0].Schedule, r.Schedules, r.Failures[0].Broken[0])
		})
	}
}

// parksLate reports that a message is parked, but parks it with the next intake of its key, or after the
// position.
type parksLate struct {
	db
	late []store.Effect
}

func (d *parksLate) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	for _, m := range in.Marks {
		if slices.ContainsFunc(d.late,
			func(e store.Effect) bool { return string(e.Park.Message.Key) == string(m.Key) }) {
			if err := d.park(ctx); err != nil {
				return nil, err
			}
		}
	}
	u, err := d.db.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return &unitParksLate{u, d}, nil
}

func (d *parksLate) SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error) {
	all, err := d.db.SyncConsumer(ctx, a)
	if err == nil && !a.Take && len(a.Checkpoints) > 0 {
		err = d.park(ctx)
	}
	return all, err
}

func (d *parksLate) park(ctx context.Context) error {
	late := d.late
	d.late = nil
	_, err := d.Apply(ctx, late...)
	return err
}

type unitParksLate struct {
	store.Unit[*memstore.Tx]
	d *parksLate
}

func (u *unitParksLate) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	if len(instead) == 1 && instead[0].Park != nil && instead[0].Park.Was == nil {
		u.d.late = append(u.d.late, instead...)
		_, err := u.Unit.Rollback(ctx)
		return []bool{true}, err
	}
	return u.Unit.Rollback(ctx, instead...)
}

// charging adds a bug: it counts injected faults as failures of the message.
type charging struct{ db }

func (charging) Outage(error) bool { return false }

// overtaking adds a bug: it ignores the order of a key.
type overtaking struct{ db }

func (d overtaking) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	for i := range in.Marks {
		if in.Marks[i].KeyOrder == store.Arriving {
			in.Marks[i].KeyOrder = store.Anytime
		}
	}
	return d.db.Begin(ctx, in)
}

// deletesFirst deletes a claimed message before it is handled.
type deletesFirst struct{ db }

func (d deletesFirst) Claim(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	c, err := d.db.Claim(ctx, w)
	for _, p := range c.Parked {
		if _, err := d.db.Apply(ctx, store.Effect{Finish: &store.Finish{Consumer: p.Consumer,
			Identity: p.Identity}}); err != nil {
			return c, err
		}
	}
	return c, err
}

func (d deletesFirst) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	for i := range in.Marks {
		if in.Marks[i].KeyOrder == store.Retrying {
			in.Marks[i].KeyOrder = store.Anytime
		}
	}
	u, err := d.db.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return unitDeletesFirst{u}, nil
}

type unitDeletesFirst struct{ store.Unit[*memstore.Tx] }

func (u unitDeletesFirst) Commit(ctx context.Context, es ...store.Effect) error {
	for i := range es {
		es[i].Finish = nil
	}
	return u.Unit.Commit(ctx, es...)
}

func (u unitDeletesFirst) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	for i := range instead {
		if instead[i].Park != nil {
			instead[i].Park.Was = nil
		}
	}
	return u.Unit.Rollback(ctx, instead...)
}

// looksFirst reads the state of a message, and then handles it without a lock on its key.
type looksFirst struct{ db }

func (d looksFirst) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	look, err := d.db.Begin(ctx, in)
	if err != nil || len(in.Marks) != 1 {
		return look, err
	}
	found := look.Found().Marks
	if found[0].Outcome != store.Fresh {
		return look, nil
	}
	if _, err := look.Rollback(ctx); err != nil {
		return nil, err
	}
	in.Marks[0].KeyOrder = store.Anytime
	u, err := d.db.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return foundUnit{u, found}, nil
}

// claimsAny also claims messages that wait for others of their key, as SKIP LOCKED does if the first one is
// locked.
type claimsAny struct{ db }

func (d claimsAny) Claim(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	c, err := d.db.Claim(ctx, w)
	if err != nil || len(c.Parked) == 0 {
		return c, err
	}
	no := false
	all, err := store.ListParked(ctx, d.db, store.ParkedQuery{Consumer: w.Consumer, Dead: &no, Limit: w.Keys})
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Waiting {
			c.Parked = append([]store.Parked{all[i]}, c.Parked...)
		}
	}
	return c, err
}

func (d claimsAny) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	return deletesFirst(d).Begin(ctx, in)
}
