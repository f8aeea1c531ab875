package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

func TestRunKeepsOrderPerKeyWithManyWorkers(t *testing.T) {
	w := newWorld(t, 3)
	stop := run(t, w.inbox(nil, keep))
	want := map[string]string{}
	for i := range 20 {
		for k := range 30 {
			key := fmt.Sprint("k", k)
			want[key] = strings.TrimSpace(fmt.Sprint(want[key], " ", i))
			m := w.message(key, fmt.Sprint(i))
			w.publish(m, m)
		}
	}
	until(t, "all 1,200 are acknowledged", w.acknowledged)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for key, list := range want {
		w.expect(key, list)
	}
	if n := w.backlog(); n != 0 {
		t.Errorf("%d deliveries are not acknowledged", n)
	}
}

func TestDifferentKeysOfOnePartitionAreHandledAtTheSameTime(t *testing.T) {
	w := newWorld(t, 1)
	var meet sync.WaitGroup
	meet.Add(2)
	stop := run(t, w.inbox(nil, func(ctx context.Context, tx tx, m skald.Received[string]) error {
		meet.Done()
		meet.Wait() // forever, unless the other key's handler runs at the same time
		return keep(ctx, tx, m)
	}))
	w.publish(w.message("k", "1"), w.message("l", "1"))
	until(t, "both handled", func() bool { return len(w.db.Marks()) == 2 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestStopFinishesRunningHandlers(t *testing.T) {
	w := newWorld(t, 1)
	begun, goOn := make(chan struct{}), make(chan struct{})
	in := w.inbox(&inbox.Options{Workers: 1},
		func(ctx context.Context, tx tx, m skald.Received[string]) error {
			if m.Value == "1" {
				close(begun)
				<-goOn
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return keep(ctx, tx, m)
		})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	w.publish(w.message("k", "1"), w.message("l", "2"))
	<-begun
	cancel()
	close(goOn)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	w.expect("k", "1")
	w.expect("l", "")
	if n := w.backlog(); n != 1 {
		t.Errorf("%d deliveries are left, want 1", n)
	}
	if h := in.Health(); h.Live || h.Ready {
		t.Errorf("health %+v", h)
	}
}

func TestDrainIsBounded(t *testing.T) {
	w := newWorld(t, 1)
	begun := make(chan struct{})
	in := w.inbox(&inbox.Options{Timeouts: inbox.Timeouts{Drain: time.Millisecond}},
		func(ctx context.Context, tx tx, m skald.Received[string]) error {
			close(begun)
			<-ctx.Done() // a handler that respects its context ends with the drain
			return ctx.Err()
		})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	w.publish(w.message("k", "1"))
	<-begun
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n := w.backlog(); n != 1 {
		t.Errorf("%d deliveries are left, want 1", n)
	}
}

func TestAHandlerThatIgnoresItsContextDoesNotHoldRun(t *testing.T) {
	w := newWorld(t, 1)
	begun, release := make(chan struct{}), make(chan struct{})
	var log bytes.Buffer
	in := w.inbox(&inbox.Options{Timeouts: inbox.Timeouts{Drain: time.Millisecond}, Workers: 2,
		Logger: slog.New(slog.NewTextHandler(&log, nil))},
		func(ctx context.Context, tx tx, m skald.Received[string]) error {
			if m.Value == "deaf" {
				close(begun)
				<-release
			}
			return keep(ctx, tx, m)
		})
	first := w.message("k", "1")
	deaf, behind := w.message("l", "deaf"), w.message("m", "3")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	w.publish(first, deaf, behind)
	<-begun
	until(t, "the others are handled", func() bool { return len(w.db.Marks()) == 2 })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "ignores") || !strings.Contains(text, deaf.ID) {
		t.Errorf("the log does not name the message: %s", text)
	}
	close(release)
	next := w.stepper(keep)
	until(t, "the message comes again", func() bool {
		w.pass(time.Minute)
		w.quiet(next)
		return w.db.User()["l"] == "deaf"
	})
	w.expect("k", "1")
	w.expect("m", "3")
	if n := w.backlog(); n != 0 {
		t.Errorf("%d deliveries are left", n)
	}
}

func TestMembersComeAndGoUnderLoad(t *testing.T) {
	w := newWorld(t, 4)
	steady := run(t, w.inbox(nil, keep))
	want := map[string]string{}
	for i := range 20 {
		guest := run(t, w.inbox(nil, keep))
		for k := range 20 {
			key := fmt.Sprint("k", k)
			want[key] = strings.TrimSpace(fmt.Sprint(want[key], " ", i))
			w.publish(w.message(key, fmt.Sprint(i)))
		}
		if err := guest(); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all 400 are acknowledged", w.acknowledged)
	if err := steady(); err != nil {
		t.Fatal(err)
	}
	for key, list := range want {
		w.expect(key, list)
	}
	if n := w.backlog(); n != 0 {
		t.Errorf("%d deliveries are not acknowledged", n)
	}
}

// away is a database that a test can disconnect.
type away struct {
	store.Driver[tx]
	out    atomic.Bool
	asked  atomic.Int64
	probed atomic.Int64
}

var errAway = errors.New("connection refused")

func (a *away) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	if a.asked.Add(1); a.out.Load() {
		return nil, errAway
	}
	return a.Driver.Begin(ctx, in)
}

func (a *away) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	if a.out.Load() {
		return nil, errAway
	}
	return a.Driver.Seen(ctx, consumer, ids)
}

func (a *away) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	if a.out.Load() {
		return nil, errAway
	}
	return a.Driver.Apply(ctx, es...)
}

func (a *away) Probe(ctx context.Context) error {
	if a.probed.Add(1); a.out.Load() {
		return errAway
	}
	return a.Driver.Probe(ctx)
}

func (a *away) Outage(err error) bool { return errors.Is(err, errAway) || a.Driver.Outage(err) }

// Uses simulated time, with real pauses between attempts.
// Interleaving 14.
func TestOutageOfTheDatabaseIsNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		db := &away{Driver: w.db}
		db.out.Store(true)
		in := w.over(db, nil, keep)
		for k := range 1000 {
			w.publish(w.message(fmt.Sprint("k", k), "1"))
		}
		stop := run(t, in)
		time.Sleep(time.Minute) // some begin before the first probe is answered
		before := db.asked.Load()
		time.Sleep(10 * time.Minute)
		if h := in.Health(); h.Failures != 0 {
			t.Errorf("health %+v", h)
		}
		if n := db.asked.Load(); n > before {
			t.Errorf("a database that is away was asked %d times while its probe fails", n-before)
		}
		db.out.Store(false)
		until(t, "1000 marks", func() bool { return len(w.db.Marks()) == 1000 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// fullPool is a database without a free connection for reads of the marks: handlers hold all.
type fullPool struct {
	store.Driver[tx]
	looks atomic.Int64
}

func (f *fullPool) Seen(ctx context.Context, _ string, _ []store.Identity) ([]store.Verdict, error) {
	f.looks.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// A read of the marks that gets no connection delays the main loop for a moment, not forever. Uses
// simulated time.
func TestLookWithoutAConnectionDelaysLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		db := &fullPool{Driver: w.db}
		stop := run(t, w.over(db, nil, keep))
		for n := range 60 {
			w.publish(w.message(fmt.Sprint("k", n), "1"))
			time.Sleep(time.Second)
		}
		if n := len(w.db.Marks()); n < 55 {
			t.Errorf("%d of 60 messages are handled", n)
		}
		if n := db.looks.Load(); n > 3 {
			t.Errorf("it looked %d times in a minute", n)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// Each probe opens a connection to the server. The looks of an idle consumer show that its database
// answers, so it needs no probes. Uses simulated time.
func TestIdleInboxDoesNotProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		db := &away{Driver: w.db}
		in := w.over(db, nil, keep)
		stop := run(t, in)
		time.Sleep(10 * time.Minute)
		if n := db.probed.Load(); n > 0 || !in.Health().Ready {
			t.Errorf("it probed a database that answers %d times; ready %v", n, in.Health().Ready)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// callCount counts the calls of the database by an idle inbox.
type callCount struct {
	store.Driver[tx]
	n atomic.Int64
}

func (a *callCount) Claim(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	a.n.Add(1)
	return a.Driver.Claim(ctx, w)
}

func (a *callCount) SyncConsumer(ctx context.Context, w store.SyncRequest) (store.SyncResult, error) {
	a.n.Add(1)
	return a.Driver.SyncConsumer(ctx, w)
}

func (a *callCount) List(ctx context.Context, q store.List) (store.Listed, error) {
	a.n.Add(1)
	return a.Driver.List(ctx, q)
}

func (a *callCount) Status(ctx context.Context, q store.StatusQuery) (store.Status, error) {
	a.n.Add(1)
	return a.Driver.Status(ctx, q)
}

func (a *callCount) Probe(ctx context.Context) error {
	a.n.Add(1)
	return a.Driver.Probe(ctx)
}

// An idle inbox makes about nine calls of its database per minute, each in one transaction: a look every 8 s,
// and a heartbeat per minute.
func TestIdleInboxMakesFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		db := &callCount{Driver: w.db}
		in := w.over(db, nil, keep)
		stop := run(t, in)
		time.Sleep(time.Minute)
		before := db.n.Load()
		time.Sleep(10 * time.Minute)
		if n := db.n.Load() - before; n > 110 || !in.Health().Ready {
			t.Errorf("it made %d calls in 10 minutes; ready %v", n, in.Health().Ready)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRunWaitsForATopicThatIsNotThereYet(t *testing.T) {
	w := newWorld(t, 1)
	w.bus = membroker.New(nil)
	in := w.inbox(nil, keep)
	stop := run(t, in)
	until(t, "the reason",
		func() bool { return strings.Contains(in.Health().Why, broker.ErrNoTopic.Error()) })
	if h := in.Health(); !h.Live || h.Ready {
		t.Errorf("health %+v", h)
	}
	if err := w.bus.MakeTopics(t.Context(), 1, "orders"); err != nil {
		t.Fatal(err)
	}
	w.publish(w.message("k", "1"))
	until(t, "the message", func() bool { return len(w.db.Marks()) == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// noTables is a database that was never migrated.
type noTables struct{ store.Driver[tx] }

func (noTables) Check(context.Context, store.Role) error {
	return &store.SchemaError{Where: "memory", Remedy: "run: skald migrate"}
}

func TestMissingTablesEndRunWithTheRemedy(t *testing.T) {
	w := newWorld(t, 1)
	err := w.over(noTables{w.db}, nil, keep).Run(t.Context())
	var schema *store.SchemaError
	if !errors.As(err, &schema) || !strings.Contains(err.Error(), "skald migrate") {
		t.Errorf("Run: %v", err)
	}
}

// ended is a driver that detects, like database/sql, that the handler ended the transaction itself.
type ended struct{ store.Driver[tx] }

type endedUnit struct{ store.Unit[tx] }

func (d ended) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	return endedUnit{u}, err
}

func (u endedUnit) Commit(ctx context.Context, _ ...store.Effect) error {
	_, _ = u.Unit.Rollback(ctx)
	return store.ErrLent
}

// If a handler ends its transaction itself, its message becomes a dead letter, and the consumer continues.
func TestHandlerThatCommitsItselfMakesADeadLetter(t *testing.T) {
	w := newWorld(t, 1)
	w.publish(w.message("k", "1"))
	in := w.over(ended{w.db}, &inbox.Options{Now: w.clock}, keep)
	w.quiet(in)
	if h := in.Health(); h.Dead != 1 || !h.Live {
		t.Errorf("%+v", h)
	}
}

func TestNewLifeOfTheSameMemberEndsTheOldOne(t *testing.T) {
	w := newWorld(t, 2)
	ended := make(chan error, 1)
	old := w.inbox(&inbox.Options{Instance: inbox.Instance{Member: "stock-1"}}, keep)
	go func() { ended <- old.Run(t.Context()) }()
	until(t, "the old one is ready", func() bool { return old.Health().Ready })
	stop := run(t, w.inbox(&inbox.Options{Instance: inbox.Instance{Member: "stock-1"}}, keep))
	if err := <-ended; !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Run: %v", err)
	}
	w.publish(w.message("k", "1"))
	until(t, "the message", func() bool { return len(w.db.Marks()) == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
