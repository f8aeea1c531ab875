package inbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// Known wrong ways to store failures, with their consequences. The inbox has none of these bugs.
func TestSeededBugsOfFailures(t *testing.T) {
	t.Run("a redrive by way of the topic", func(t *testing.T) {
		for name, c := range map[string]struct {
			wrap func(*membroker.Broker, store.Driver[tx]) store.Driver[tx]
			mail string // the effects at the consumer that never failed
		}{
			"as it is": {nil, "1"},
			"the bug": {func(bus *membroker.Broker, d store.Driver[tx]) store.Driver[tx] {
				return byTheTopic{d, bus}
			}, "1 1"},
		} {
			t.Run(name, func(t *testing.T) { redriven(t, c.wrap, c.mail) })
		}
	})
	t.Run("attempts are counted in memory", func(t *testing.T) {
		for name, c := range map[string]struct {
			wrap func(store.Driver[tx]) store.Driver[tx]
			runs int // each ends with a deploy
		}{
			"as it is": {nil, 3},
			"the bug": {func(d store.Driver[tx]) store.Driver[tx] {
				return counts{d, map[store.Identity]int{}}
			}, 10},
		} {
			t.Run(name, func(t *testing.T) { deployed(t, c.wrap, c.runs) })
		}
	})
	t.Run("headers are added with each death", func(t *testing.T) {
		for name, c := range map[string]struct {
			wrap    func(store.Driver[tx]) store.Driver[tx]
			headers int // after five deaths
		}{
			"as it is": {func(d store.Driver[tx]) store.Driver[tx] { return d }, 1 + 6},
			"the bug":  {func(d store.Driver[tx]) store.Driver[tx] { return adds{d} }, 1 + 5*6},
		} {
			t.Run(name, func(t *testing.T) { goesRound(t, c.wrap, c.headers) })
		}
	})
}

// redriven redrives a dead letter of one of two consumers of a topic.
func redriven(t *testing.T, wrap func(*membroker.Broker, store.Driver[tx]) store.Driver[tx], want string) {
	w, fails := newWorld(t, 1), true
	in := w.stepper(func(ctx context.Context, tx tx, m skald.Received[string]) error {
		if fails {
			return skald.Permanent(errors.New("no such column"))
		}
		return keep(ctx, tx, m)
	})
	other := &world{t: t, bus: w.bus, now: w.clock()}
	other.db = memstore.New(&memstore.Options{Now: other.clock})
	mail := inbox.New(other.db, w.bus.Client(), "mail", &inbox.Options{Now: other.clock})
	inbox.On(mail, said, keep)
	w.publish(w.message("k", "1"))
	w.quiet(in)
	other.quiet(mail)
	fails = false
	var db store.Driver[tx] = w.db
	if wrap != nil {
		db = wrap(w.bus, db)
	}
	if stood, err := db.Apply(t.Context(),
		store.Effect{Requeue: &store.Requeue{Consumer: "stock",
			Identity: w.dead()[0].Identity}}); err != nil || !stood[0] {
		t.Fatal(stood, err)
	}
	w.pass(time.Minute)
	w.quiet(in)
	other.quiet(mail)
	w.expect("k", "1")
	other.expect("k", want)
}

// byTheTopic publishes a dead letter to its topic again, as a new message, and finishes the old one.
type byTheTopic struct {
	store.Driver[tx]
	bus *membroker.Broker
}

func (d byTheTopic) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	for i := range es {
		r := es[i].Requeue
		if r == nil {
			continue
		}
		kept, err := store.ListParked(ctx, d,
			store.ParkedQuery{Consumer: r.Consumer, Identity: &r.Identity, Limit: 1})
		if err != nil {
			return nil, err
		}
		m := kept[0].Message
		m.ID += "-again"
		if err := d.bus.Publish(ctx, []skald.Message{m}).Wait(ctx); err != nil {
			return nil, err
		}
		es[i].Requeue, es[i].Finish = nil, &store.Finish{Consumer: r.Consumer, Identity: r.Identity}
	}
	return d.Driver.Apply(ctx, es...)
}

// deployed runs a message that always fails, in processes that make one attempt each.
func deployed(t *testing.T, wrap func(store.Driver[tx]) store.Driver[tx], want int) {
	w, runs := newWorld(t, 1), 0
	w.publish(w.message("k", "1"))
	for range 10 {
		var db store.Driver[tx] = w.db
		if wrap != nil {
			db = wrap(db)
		}
		in := w.over(db, &inbox.Options{Now: w.clock, Retry: inbox.Retry{Attempts: 3}},
			func(context.Context, tx, skald.Received[string]) error {
				runs++
				return errors.New("no such column")
			})
		w.quiet(in)
		if err := in.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Minute)
	}
	if runs != want || (len(w.dead()) == 1) != (want == 3) {
		t.Errorf("%d runs, want %d; dead letters %+v", runs, want, w.dead())
	}
}

// counts is a store that has the attempts at a message only in memory.
type counts struct {
	store.Driver[tx]
	of map[store.Identity]int
}

func (d counts) Claim(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	c, err := d.Driver.Claim(ctx, w)
	for i := range c.Parked {
		c.Parked[i].Attempts = d.of[c.Parked[i].Identity]
	}
	return c, err
}

func (d counts) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	for i := range in.Marks {
		in.Marks[i].Attempts = 0
	}
	u, err := d.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return countsUnit{u, d}, nil
}

func (d counts) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	return d.Driver.Apply(ctx, d.without(es)...)
}

type countsUnit struct {
	store.Unit[tx]
	d counts
}

func (u countsUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	return u.Unit.Rollback(ctx, u.d.without(instead)...)
}

func (d counts) without(es []store.Effect) []store.Effect {
	for i := range es {
		if k := es[i].Park; k != nil {
			d.of[k.Identity], k.Attempts = k.Attempts, 0
			if k.Was != nil {
				*k.Was = 0
			}
		}
	}
	return es
}

// goesRound copies a dead letter to a topic, publishes it again from there, and it fails again.
func goesRound(t *testing.T, wrap func(store.Driver[tx]) store.Driver[tx], want int) {
	w := newWorld(t, 1)
	if err := w.bus.MakeTopics(t.Context(), 1, "dead"); err != nil {
		t.Fatal(err)
	}
	in := w.over(wrap(w.db), &inbox.Options{Now: w.clock, Dead: inbox.Dead{Topic: "dead", Copy: true}},
		func(context.Context, tx, skald.Received[string]) error {
			return skald.Permanent(
				errors.New("never"))
		})
	m := w.message("", "x")
	m.Headers = []skald.Header{{Name: "own", Value: []byte("1")}}
	for n := range 5 {
		w.publish(m)
		w.quiet(in)
		rows := w.db.Rows()
		if len(rows) != n+1 {
			t.Fatalf("%d copies after %d deaths", len(rows), n+1)
		}
		m = rows[n].Message
		m.Topic = "orders"
	}
	if len(m.Headers) != want || m.Headers[0].Name != "own" {
		t.Errorf("%d headers, want %d: %v", len(m.Headers), want, m.Headers)
	}
}

// adds is a store that appends the headers of a dead letter to all earlier ones.
type adds struct{ store.Driver[tx] }

func (d adds) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return addsUnit{u}, nil
}

type addsUnit struct{ store.Unit[tx] }

func (u addsUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	for i := range instead {
		k := instead[i].Park
		for j := range instead[i].Rows {
			m := &instead[i].Rows[j]
			own := slices.DeleteFunc(slices.Clone(m.Headers),
				func(h skald.Header) bool { return !strings.HasPrefix(h.Name, "x-") })
			m.Headers = slices.Concat(k.Message.Headers, own)
		}
	}
	return u.Unit.Rollback(ctx, instead...)
}

// A sender is paused between its intent and its call. Meanwhile another process continues the message, and
// the provider forgets the key. A sender that ignores its deadline charges twice.
// Interleaving 8.
func TestSeededBugOfTheDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		blind bool
		want  string
	}{
		"as it is": {false, "look up 1, do 1"},
		"the bug":  {true, "look up 1, do 1, do 1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, b := newWorld(t, 1), &bank{}
			clock, stands := w.clock, w.clock()
			if c.blind {
				clock = func() time.Time { return stands }
			}
			d := &slowly{Driver: w.db, w: w, pass: 70 * time.Second}
			d.then = func() {
				w.quiet(w.caller(b.call()))
				w.expect("k", "1=receipt of req 1")
				b.moved = nil
			}
			in := w.over(d, &inbox.Options{Now: clock}, keep)
			inbox.OnCall(in, said, b.call())
			w.publish(w.message("k", "1"))
			w.quiet(in)
			w.expect("k", "1=receipt of req 1")
			if b.asked() != c.want {
				t.Errorf("asked %s, want %s", b.asked(), c.want)
			}
		})
	}
}
