package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// mortal is an inbox with a process that dies in handlers, as by kill -9, in one session after another.
type mortal struct {
	*world
	crashes  func(m skald.Received[string]) bool
	fails    func(m skald.Received[string]) bool
	runs     map[string]int
	sessions int
	batch    int                                     // Options.Batch
	wrap     func(store.Driver[tx]) store.Driver[tx] // a bug; nil: none
}

func newMortal(t *testing.T, partitions int, crashes func(skald.Received[string]) bool) *mortal {
	return &mortal{world: newWorld(t, partitions), crashes: crashes, runs: map[string]int{}}
}

// live runs one session until it dies or nothing is left to do. It reports whether the session died.
func (m *mortal) live() (died bool) {
	m.t.Helper()
	m.sessions++
	session := sagatest.NewFaults(uint64(m.sessions), sagatest.None()).Session()
	var db store.Driver[tx] = m.db
	if m.wrap != nil {
		db = m.wrap(db)
	}
	in := inbox.New(sagatest.WrapDriver(db, session), sagatest.WrapBroker(m.bus.Client(), session), "stock",
		&inbox.Options{Now: m.clock, Logger: slog.New(slog.DiscardHandler),
			Instance: inbox.Instance{Member: "one"}, Retry: inbox.Retry{InitialInterval: time.Millisecond},
			Batch: m.batch})
	inbox.On(in, said, func(ctx context.Context, tx tx, r skald.Received[string]) error {
		m.runs[r.Value]++
		if m.crashes(r) {
			return session.Die()
		}
		if m.fails != nil && m.fails(r) {
			return errors.New("not yet")
		}
		return note(tx, string(r.Key), r.Value)
	})
	for range 1000 {
		busy, err := in.Step(m.t.Context())
		select {
		case <-session.Died():
			return true
		default:
		}
		if err != nil {
			m.t.Fatal(err)
		}
		if !busy {
			if err := in.Close(m.t.Context()); err != nil {
				m.t.Fatal(err)
			}
			return false
		}
	}
	m.t.Fatal("never quiet")
	return false
}

// rest runs sessions until one does not die. The claims of dead sessions expire meanwhile.
func (m *mortal) rest(most int) (deaths int) {
	m.t.Helper()
	for ; m.live(); deaths++ {
		if deaths > most {
			m.t.Fatalf("it still dies after %d lives; kept: %+v", m.sessions, m.kept())
		}
		m.pass(2 * time.Minute)
	}
	return deaths
}

// A message that crashes its process becomes a dead letter after three runs alone. For its neighbors no
// failure counts, and they take effect once, in order.
// Interleaving 12.
func TestKillerBecomesADeadLetter(t *testing.T) {
	for _, partitions := range []int{1, 4} {
		t.Run(fmt.Sprint(partitions, " partitions"), func(t *testing.T) {
			m := newMortal(t, partitions, func(r skald.Received[string]) bool { return r.Value == "killer" })
			for _, text := range []string{"a1", "b1", "c1", "a2", "killer", "b2", "c2", "d1", "a3"} {
				key := text[:1]
				if text == "killer" {
					key = "b"
				}
				m.publish(m.message(key, text))
			}
			deaths := m.rest(10)
			if deaths != 6 || m.runs["killer"] != 6 {
				t.Errorf("%d deaths, %d runs of the killer", deaths, m.runs["killer"])
			}
			dead := m.dead()
			if len(dead) != 1 || dead[0].Dead.Kind != "crash" ||
				!strings.Contains(dead[0].Last.Why, "3 times") || string(dead[0].Message.Key) != "b" {
				t.Fatalf("dead: %+v", dead)
			}
			m.expect("a", "a1 a2 a3")
			m.expect("b", "b1") // b2 waits for the dead letter
			m.expect("c", "c1 c2")
			m.expect("d", "d1")
			for _, p := range m.kept() {
				if p.CrashCount > 0 && p.Dead == nil || p.Attempts > 0 {
					t.Errorf("%s is charged with %d kills, %d attempts", p.ID, p.CrashCount, p.Attempts)
				}
			}
		})
	}
}

// Most processes end for another reason than a message. So after one crash, messages in progress run as
// usual, and are not parked first. Only messages that started, or could start before the next checkpoint, are
// in progress.
// Interleaving 12.
func TestOneDeathMakesNoSuspects(t *testing.T) {
	m := newMortal(t, 1, nil)
	m.crashes = func(skald.Received[string]) bool { return m.sessions == 1 && len(m.runs) == 20 }
	parked := &parkings{}
	m.wrap = func(d store.Driver[tx]) store.Driver[tx] { parked.Driver = d; return parked }
	var want []string
	for i := range 500 {
		m.publish(m.message("k", fmt.Sprint(i)))
		want = append(want, fmt.Sprint(i))
	}
	if !m.live() {
		t.Fatal("it did not die")
	}
	all, err := m.db.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock"})
	if err != nil || len(all.Checkpoints) != 1 || all.Checkpoints[0].InFlightEnd <= 19 ||
		all.Checkpoints[0].InFlightEnd > 19+3*16 {
		t.Errorf("it died at the 20th of 500 messages, and left %+v, %v", all.Checkpoints, err)
	}
	m.pass(2 * time.Minute)
	if m.live() {
		t.Fatal("it died again")
	}
	m.expect("k", strings.Join(want, " "))
	if parked.n > 0 {
		t.Errorf("%d were put aside", parked.n)
	}
}

type parkings struct {
	store.Driver[tx]
	n int
}

func (d *parkings) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return unitParkings{u, d}, nil
}

type unitParkings struct {
	store.Unit[tx]
	d *parkings
}

func (u unitParkings) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	for i := range instead {
		if instead[i].Park != nil {
			u.d.n++
		}
	}
	return u.Unit.Rollback(ctx, instead...)
}

// A parked message that crashes its process is found in the same way: its second crash makes it a suspect,
// and each of its own runs counts.
// Interleaving 12.
func TestParkedKillerBecomesADeadLetter(t *testing.T) {
	m := newMortal(t, 1, nil)
	m.crashes = func(r skald.Received[string]) bool { return r.Value == "killer" && m.runs["killer"] > 1 }
	m.fails = func(r skald.Received[string]) bool { return r.Value == "killer" && m.runs["killer"] == 1 }
	m.publish(m.message("a", "killer"), m.message("a", "a2"), m.message("b", "b1"))
	m.live()
	m.pass(2 * time.Minute)
	deaths := m.rest(10)
	dead := m.dead()
	if len(dead) != 1 || dead[0].Dead.Kind != "crash" || dead[0].Attempts != 1 {
		t.Fatalf("after %d deaths: %+v", deaths, dead)
	}
	if deaths != 5 {
		t.Errorf("%d deaths, want two while it is claimed and three while it runs alone", deaths)
	}
	m.expect("b", "b1")
}

// Processes that are killed from outside at any time make no dead letters: at most one run in four of a
// message is its own.
// Interleaving 12.
func TestDeploysByKillMakeNoDeadLetters(t *testing.T) {
	m := newMortal(t, 2, nil)
	calls := 0
	m.crashes = func(skald.Received[string]) bool { calls++; return calls%7 == 0 }
	for i := range 60 {
		m.publish(m.message(fmt.Sprint("k", i%5), fmt.Sprint(i)))
	}
	deaths := m.rest(100)
	if deaths < 5 {
		t.Fatalf("only %d deaths", deaths)
	}
	if kept := m.kept(); len(kept) != 0 {
		t.Errorf("kept: %+v", kept)
	}
	for k := range 5 {
		var want []string
		for i := k; i < 60; i += 5 {
			want = append(want, fmt.Sprint(i))
		}
		m.expect(fmt.Sprint("k", k), strings.Join(want, " "))
	}
}

// In the steady state the inbox stores positions at intervals, not for each message.
func TestPositionsAreStoredNowAndThen(t *testing.T) {
	w := newWorld(t, 2)
	counted := &counting{Store: w.db}
	in := w.over(counted, &inbox.Options{Now: w.clock}, keep)
	for i := range 500 {
		w.publish(w.message(fmt.Sprint("k", i%10), fmt.Sprint(i)))
		w.quiet(in)
		w.pass(time.Millisecond)
	}
	if counted.advances > 15 {
		t.Errorf("%d statements for 500 messages in half a second", counted.advances)
	}
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := w.db.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock"})
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, s := range all.Checkpoints {
		sum += s.Position
		if s.Session != "" || s.InFlightEnd < s.Position {
			t.Errorf("left as %+v", s)
		}
	}
	if sum != 500 {
		t.Errorf("the partitions are at %+v", all.Checkpoints)
	}
}

type counting struct {
	*memstore.Store
	advances int
}

func (c *counting) SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error) {
	if !a.Take && len(a.Checkpoints) > 0 {
		c.advances++
	}
	return c.Store.SyncConsumer(ctx, a)
}

// If a database is older than the broker's position, it gets its messages again. Those without marks run, and
// the others are duplicates. The consumer ignores a checkpoint of an earlier topic with the same name, and
// reads the topic from its beginning.
// Interleaving 5.
func TestConsumerStartsAtTheLowerPosition(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(keep)
	for i := range 10 {
		w.publish(w.message("k", fmt.Sprint(i)))
	}
	w.quiet(in)
	w.expect("k", "0 1 2 3 4 5 6 7 8 9")
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	was, err := w.db.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock"})
	if err != nil || len(was.Checkpoints) != 1 {
		t.Fatal(was, err)
	}
	for name, tc := range map[string]struct {
		origin, want string
	}{
		"gone back":    {was.Checkpoints[0].Origin, "4 5 6 7 8 9"},
		"another life": {"other", "0 1 2 3 4 5 6 7 8 9"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, bus: w.bus, now: w.clock()}
			w.db = memstore.New(&memstore.Options{Now: w.clock})
			checkpoint := store.Checkpoint{Partition: was.Checkpoints[0].Partition, Origin: tc.origin,
				Position: 4}
			if _, err := w.db.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock", Take: true, Session: "",
				Stamp: "n", Checkpoints: []store.Checkpoint{checkpoint}}); err != nil {
				t.Fatal(err)
			}
			in := w.stepper(keep)
			w.quiet(in)
			w.expect("k", tc.want)
			if err := in.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A partition was empty when the backup was made. Its messages come again, too: its beginning was stored
// before its first message came.
func TestConsumerOfAPartitionThatWasEmpty(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(keep)
	w.quiet(in)
	backup, err := w.db.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock"})
	if err != nil || len(backup.Checkpoints) != 1 || backup.Checkpoints[0].Position != 0 {
		t.Fatalf("%+v %v", backup, err)
	}
	for i := range 3 {
		w.publish(w.message("k", fmt.Sprint(i)))
	}
	w.quiet(in)
	w.expect("k", "0 1 2")
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	then := &world{t: t, bus: w.bus, now: w.clock(), db: memstore.New(&memstore.Options{Now: w.clock})}
	if _, err := then.db.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock", Take: true, Session: "",
		Stamp: "n", Checkpoints: backup.Checkpoints}); err != nil {
		t.Fatal(err)
	}
	in = then.stepper(keep)
	then.quiet(in)
	then.expect("k", "0 1 2")
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A running consumer notices that it was rewound, and handles messages without a mark again.
// Interleaving 5.
func TestRewindOfARunningConsumer(t *testing.T) {
	w := newWorld(t, 1)
	in := w.inbox(nil, keep)
	stop := run(t, in)
	for i := range 5 {
		w.publish(w.message("k", fmt.Sprint(i)))
	}
	until(t, "all are handled", func() bool { return in.Health().Handled == 5 })
	checkpoint := store.Checkpoint{}
	until(t, "the position is stored", func() bool {
		all, err := w.db.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock"})
		if err != nil {
			t.Fatal(err)
		}
		checkpoint = all.Checkpoints[0]
		return checkpoint.Position == 5
	})
	w.apply(store.Effect{Rewind: &store.Rewind{Consumer: "stock", Partition: checkpoint.Partition,
		Origin: checkpoint.Origin, Position: 2, Stamp: "again"}})
	w.publish(w.message("k", "5")) // so that it looks at its checkpoints soon
	until(t, "they come again", func() bool { h := in.Health(); return h.Duplicates >= 3 && h.Handled == 6 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.expect("k", "0 1 2 3 4 5")
}

// Each bug removes one safeguard, and the tests find it.
// Interleaving 12.
func TestSeededBugsOfPositionsAndKills(t *testing.T) {
	for name, wrap := range map[string]func(store.Driver[tx]) store.Driver[tx]{
		"kills are not stored before the run": func(d store.Driver[tx]) store.Driver[tx] {
			return uncharged{d}
		},
		"the last owner is unknown": func(d store.Driver[tx]) store.Driver[tx] { return anonymous{d} },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMortal(t, 1, func(r skald.Received[string]) bool { return r.Value == "killer" })
			m.wrap = wrap
			m.publish(m.message("a", "killer"), m.message("b", "b1"))
			for range 12 {
				if !m.live() {
					t.Fatalf("it is not found: %+v", m.kept())
				}
				m.pass(2 * time.Minute)
			}
		})
	}
	t.Run("the database's position is read too high", func(t *testing.T) {
		w := newWorld(t, 1)
		for i := range 4 {
			w.publish(w.message("k", fmt.Sprint(i)))
		}
		in := w.stepper(keep)
		w.quiet(in)
		if err := in.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		was, err := w.db.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock"})
		if err != nil {
			t.Fatal(err)
		}
		w.db = memstore.New(&memstore.Options{Now: w.clock})
		was.Checkpoints[0].Position = 1
		if _, err := w.db.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock", Take: true, Session: "",
			Stamp: "n", Checkpoints: was.Checkpoints}); err != nil {
			t.Fatal(err)
		}
		in = w.over(misread{w.db}, &inbox.Options{Now: w.clock}, keep)
		w.quiet(in)
		w.expect("k", "") // all of it is lost
	})
}

type uncharged struct{ store.Driver[tx] }

func (d uncharged) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	for i := range es {
		if k := es[i].Park; k != nil {
			k.CrashCount = 0
		}
	}
	return d.Driver.Apply(ctx, es...)
}

type anonymous struct{ store.Driver[tx] }

func (d anonymous) SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error) {
	all, err := d.Driver.SyncConsumer(ctx, a)
	for i := range all.Checkpoints {
		all.Checkpoints[i].Session = ""
	}
	return all, err
}

type misread struct{ store.Driver[tx] }

func (d misread) SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error) {
	got, err := d.Driver.SyncConsumer(ctx, a)
	for i := range got.Checkpoints {
		got.Checkpoints[i].Position = 1000
	}
	return got, err
}

// If a position is stored but the answer is lost, the inbox later recognizes its own stamp. It does not
// conclude that the database was restored.
func TestLostAnswerOfPositions(t *testing.T) {
	w := newWorld(t, 1)
	bus := &subscribed{Broker: w.bus}
	in := inbox.New(&halfDeaf{Store: w.db}, bus, "stock",
		&inbox.Options{Now: w.clock, Logger: slog.New(slog.DiscardHandler),
			Retry: inbox.Retry{InitialInterval: time.Millisecond}})
	inbox.On(in, said, keep)
	var want []string
	for i := range 60 {
		w.publish(w.message("k", fmt.Sprint(i)))
		want = append(want, fmt.Sprint(i))
		w.quiet(in)
		w.pass(150 * time.Millisecond)
	}
	for range 4 {
		w.quiet(in)
		w.pass(time.Second)
	}
	w.expect("k", strings.Join(want, " "))
	all, err := w.db.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock"})
	if err != nil || len(all.Checkpoints) != 1 || all.Checkpoints[0].Position != 60 {
		t.Errorf("the partitions are at %+v, %v", all.Checkpoints, err)
	}
	if bus.n != 1 {
		t.Errorf("it joined its group %d times", bus.n)
	}
}

type subscribed struct {
	*membroker.Broker
	n    int
	shut bool
}

func (b *subscribed) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	b.n++
	if b.shut {
		return nil, errors.New("the broker is away")
	}
	return b.Broker.Subscribe(ctx, g)
}

// halfDeaf is a store that stores positions, but loses two of three answers.
type halfDeaf struct {
	*memstore.Store
	n int
}

func (d *halfDeaf) SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error) {
	all, err := d.Store.SyncConsumer(ctx, a)
	if a.Take || len(a.Checkpoints) == 0 {
		return all, err
	}
	if d.n++; d.n%3 > 0 {
		return store.SyncResult{}, errors.New("no answer")
	}
	return all, err
}

// Messages start in the order in which they came, also behind another message of their key. So the position
// advances, and few messages are suspects after a crash.
func TestMessagesBeginInOrderOfArrival(t *testing.T) {
	w := newWorld(t, 1)
	var got, want []string
	in := w.inbox(&inbox.Options{Now: w.clock, Workers: 1, Batch: 1},
		func(ctx context.Context, t tx, m skald.Received[string]) error {
			got = append(got, m.Value)
			return keep(ctx, t, m)
		})
	for i := range 40 {
		text := fmt.Sprint(i)
		w.publish(w.message(fmt.Sprint("k", i%3*i), text))
		want = append(want, text)
	}
	w.quiet(in)
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the order is %v", got)
	}
}

// A rewind between Resume and the occupation of a partition takes effect: the occupation does not
// overwrite it.
// Interleaving 5.
func TestRewindOfAPartitionThatIsBeingOccupied(t *testing.T) {
	w := newWorld(t, 1)
	first := w.inbox(&inbox.Options{Now: w.clock}, keep)
	for i := range 5 {
		w.publish(w.message("k", fmt.Sprint(i)))
	}
	w.quiet(first)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := w.db.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock"})
	if err != nil || all.Checkpoints[0].Position != 5 {
		t.Fatalf("%+v, %v", all, err)
	}
	s := all.Checkpoints[0]
	next := w.over(&before{Store: w.db, occupy: func() {
		w.apply(store.Effect{Rewind: &store.Rewind{Consumer: "stock", Partition: s.Partition,
			Origin: s.Origin, Position: 2, Stamp: "again"}})
	}}, &inbox.Options{Now: w.clock}, keep)
	for range 3 {
		w.quiet(next)
		w.pass(time.Second)
	}
	if h := next.Health(); h.Duplicates != 3 {
		t.Errorf("%d messages came again, want 3", h.Duplicates)
	}
	w.expect("k", "0 1 2 3 4")
}

// before is a store that calls a function once, before partitions are occupied.
type before struct {
	*memstore.Store
	occupy func()
}

func (d *before) SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error) {
	if a.Take && d.occupy != nil {
		d.occupy()
		d.occupy = nil
	}
	return d.Store.SyncConsumer(ctx, a)
}

// The inbox releases claimed messages that have not started, even if the consumer cannot join its group
// again.
func TestClaimedIsHandedBackWithoutASubscription(t *testing.T) {
	w, bus := newWorld(t, 1), &subscribed{}
	bus.Broker = w.bus
	broken := true
	in := inbox.New(w.db, bus, "stock",
		&inbox.Options{Now: w.clock, Workers: 4, Logger: slog.New(slog.DiscardHandler)})
	inbox.On(in, said, func(ctx context.Context, tx tx, m skald.Received[string]) error {
		if broken {
			return errors.New("not yet")
		}
		return keep(ctx, tx, m)
	})
	for i := range 20 {
		w.publish(w.message(fmt.Sprint("k", i), "1"))
	}
	w.quiet(in)
	w.pass(time.Minute)
	broken = false
	w.publish(w.message("z", "1"))
	if _, err := in.Step(t.Context()); err != nil { // handles that message, and claims others
		t.Fatal(err)
	}
	all, err := w.db.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock"})
	if err != nil {
		t.Fatal(err)
	}
	s := all.Checkpoints[0]
	w.apply(store.Effect{Rewind: &store.Rewind{Consumer: "stock", Partition: s.Partition, Origin: s.Origin,
		Position: 0, Stamp: "again"}})
	bus.shut = true
	for err, n := error(nil), 0; err == nil; n++ {
		w.pass(10 * time.Millisecond)
		if _, err = in.Step(t.Context()); n > 100 {
			t.Fatal("it did not join again")
		}
	}
	claimed := func() (n int) {
		for _, p := range w.kept() {
			n += p.Claims
		}
		return n
	}
	if claimed() == 0 {
		t.Fatal("nothing is claimed")
	}
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := claimed(); n > 0 {
		t.Errorf("%d are still claimed", n)
	}
}
