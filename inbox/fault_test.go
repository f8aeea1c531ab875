package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/testlog"
	"github.com/skald-go/skald/store"
)

// foreignDeadlock is a deadlock as another database's driver returns it.
type foreignDeadlock struct{}

func (foreignDeadlock) Error() string    { return "deadlock detected" }
func (foreignDeadlock) SQLState() string { return "40P01" }

// The class of a handler's error does not depend on the store. A failure of another service counts. If the
// handler or the codec returns skald.Outage, the failure does not count, and the message is listed if the
// outage lasts.
func TestClassesOfHandlerErrors(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) { whoseFault(t, inMemory) })
	t.Run("sqlite", func(t *testing.T) { whoseFault(t, onSQLite(t)) })
	t.Run("postgres", func(t *testing.T) { whoseFault(t, onPostgres(t)) })
}

func whoseFault[TTx comparable](t *testing.T, opened opening[TTx]) {
	refused := fmt.Errorf("ask the warehouse: %w", syscall.ECONNREFUSED)
	for name, c := range map[string]struct {
		err     error
		codec   bool
		charged bool
	}{
		"another service away":        {err: refused, charged: true},
		"another database's deadlock": {err: foreignDeadlock{}, charged: true},
		"another service's deadline":  {err: context.DeadlineExceeded, charged: true},
		"a rival elsewhere":           {err: store.ErrBusy, charged: true},
		"named an outage":             {err: fmt.Errorf("wrapped: %w", skald.Outage(refused))},
		"named by the codec":          {err: skald.Outage(refused), codec: true},
		"an outage, and permanent":    {err: skald.Permanent(skald.Outage(refused)), charged: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			g := opened(w)
			in := inbox.New(g.db, w.bus, "stock",
				&inbox.Options{Now: w.clock, Logger: slog.New(slog.DiscardHandler)})
			away := true
			event := said
			if c.codec {
				event.Codec = registry{func() error {
					if away {
						return c.err
					}
					return nil
				}}
			}
			inbox.On(in, event, func(_ context.Context, tx TTx, m skald.Received[string]) error {
				if err := g.note(tx, "list", m.Value); err != nil || !away || c.codec {
					return err
				}
				return c.err
			})
			w.publish(w.message("k", "1"))
			for range 4 {
				w.quiet(in)
				g.passes(w, time.Minute)
			}
			kept, err := store.ListParked(t.Context(), g.db, store.ParkedQuery{Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			h := in.Health()
			if charged := len(kept) == 1 && kept[0].Attempts > 0; charged != c.charged {
				t.Errorf("charged: %v, kept %+v", charged, kept)
			}
			if !c.charged && (h.Unacknowledged != 0 || len(h.Stuck) != 1 ||
				!h.Stuck[0].Uncounted || !strings.Contains(h.Stuck[0].Error, "refused")) {
				t.Errorf("%+v", h)
			}
			if lists := g.lists(t); lists["list"] != "" {
				t.Errorf("%v", lists)
			}
			if errors.As(c.err, new(*skald.PermanentError)) {
				return
			}
			away = false
			g.passes(w, time.Hour)
			w.quiet(in)
			if lists := g.lists(t); lists["list"] != "1" || len(in.Health().Stuck) != 0 {
				t.Errorf("%v, %+v", lists, in.Health().Stuck)
			}
		})
	}
}

// registry is a codec that first calls a remote service.
type registry struct{ ask func() error }

func (r registry) Encode(ctx context.Context, m *skald.Message, v any) error {
	return skald.JSON{}.Encode(ctx, m, v)
}

func (r registry) Decode(ctx context.Context, m skald.Message, v any) error {
	if err := r.ask(); err != nil {
		return err
	}
	return skald.JSON{}.Decode(ctx, m, v)
}

// If the handler's transaction itself fails (a closed connection, a deadlock), the failure does not count,
// even if the handler hides the error. The same errors count if the transaction works.
func TestFailureOfTheHandlersTransaction(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks  string // a statement in the handler's transaction
		hide    bool   // the handler hides its error
		charged bool
	}{
		"its connection is ended": {breaks: `SELECT pg_terminate_backend(pg_backend_pid())`},
		"its connection is ended, unsaid": {breaks: `SELECT pg_terminate_backend(pg_backend_pid())`,
			hide: true},
		"it is given up for another": {breaks: `DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$`},
		"a lock is not to be had":    {breaks: `DO $$ BEGIN RAISE SQLSTATE '55P03'; END $$`},
		"a constraint of its own is broken": {breaks: `DO $$ BEGIN RAISE SQLSTATE '23505'; END $$`,
			charged: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			g := onPostgres(t)(w)
			in := inbox.New(g.db, w.bus, "stock",
				&inbox.Options{Now: w.clock, Logger: slog.New(slog.DiscardHandler)})
			n := 0
			inbox.On(in, said, func(ctx context.Context, tx pgx.Tx, m skald.Received[string]) error {
				if n++; n > 12 {
					return g.note(tx, "list", m.Value)
				}
				_, err := tx.Exec(ctx, c.breaks)
				if c.hide {
					return errors.New("something went wrong")
				}
				return fmt.Errorf("reserve: %w", err)
			})
			w.publish(w.message("k", "1"))
			w.quiet(in)
			if h := in.Health(); (h.Failures > 0) != c.charged || (h.Unacknowledged == 0) != c.charged {
				t.Errorf("%+v", h)
			}
			for range 30 {
				g.passes(w, time.Minute)
				w.quiet(in)
			}
			if lists := g.lists(t); lists["list"] != "1" {
				t.Errorf("%v", lists)
			}
		})
	}
}

// odd is a store that fails for unknown reasons when the inbox parks or claims messages.
type odd struct {
	store.Driver[tx]
	keeps, claims bool
	refuses       func(store.Effect) bool // nil: all, where keeps is set
}

func (o *odd) refusal(es []store.Effect) error {
	if len(es) > 0 && es[0].Park != nil && o.keeps && (o.refuses == nil || o.refuses(es[0])) {
		return errOdd
	}
	return nil
}

func (o *odd) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	if err := o.refusal(es); err != nil {
		return nil, err
	}
	return o.Driver.Apply(ctx, es...)
}

var errOdd = errors.New("index row size 4016 exceeds btree version 4 maximum 2704")

func (o *odd) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := o.Driver.Begin(ctx, in)
	return oddUnit{u, o}, err
}

func (o *odd) Claim(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	if o.claims {
		return store.Claimed{}, errOdd
	}
	return o.Driver.Claim(ctx, w)
}

type oddUnit struct {
	store.Unit[tx]
	o *odd
}

func (u oddUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	if err := u.o.refusal(instead); err != nil {
		_, _ = u.Unit.Rollback(ctx)
		return nil, err
	}
	return u.Unit.Rollback(ctx, instead...)
}

// An unknown error of parking or claiming is logged rarely, listed in Health, and retried with growing
// pauses. Other keys continue.
func TestUnknownErrorsAreLoggedAndListed(t *testing.T) {
	w := newWorld(t, 1)
	db := &odd{Driver: w.db, keeps: true}
	var log strings.Builder
	bad, runs := true, 0
	in := w.over(db, &inbox.Options{Now: w.clock, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		func(ctx context.Context, tx tx, m skald.Received[string]) error {
			if bad && string(m.Key) == "long" {
				runs++
				return errors.New("declined")
			}
			return keep(ctx, tx, m)
		})
	w.publish(w.message("long", "1"))
	for range 20 {
		w.publish(w.message("other", "x"))
		w.quiet(in)
		w.pass(time.Minute)
	}
	h := in.Health()
	if h.Ready || !strings.Contains(h.Why, "m-1 of partition") || !strings.Contains(h.Why, "2704") {
		t.Errorf("ready %v, why %q", h.Ready, h.Why)
	}
	if len(h.Stuck) != 1 || !h.Stuck[0].Uncounted || h.Stuck[0].ID != "m-1" ||
		!strings.Contains(h.Stuck[0].Error, "2704") || !strings.Contains(h.Stuck[0].Error, "declined") {
		t.Errorf("%+v", h)
	}
	w.expect("other", strings.TrimSpace(strings.Repeat("x ", 20)))
	if n := strings.Count(log.String(), "cannot be parked, for an unknown"); n < 3 || n > 10 ||
		runs != 20 {
		t.Errorf("%d lines for %d attempts: %s", n, runs, log.String())
	}
	log.Reset()
	db.keeps, db.claims = false, true
	for range 10 {
		_, _ = in.Step(t.Context())
		w.pass(10 * time.Second)
	}
	h = in.Health()
	if len(h.Failing) != 1 || h.Failing[0].Doing != "claim parked messages" || h.Failing[0].Times < 3 ||
		h.Ready || !strings.Contains(h.Why, "2704") {
		t.Errorf("%+v", h)
	}
	if n := strings.Count(log.String(), "fails repeatedly"); n < 1 || n > 4 {
		t.Errorf("%d lines: %s", n, log.String())
	}
	bad, db.claims = false, false
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("long", "1")
	if h = in.Health(); len(h.Stuck)+len(h.Failing) != 0 || !h.Ready {
		t.Errorf("%+v", h)
	}
}

// A message that the store refuses to park becomes a dead letter after many tries over minutes, in the
// first form that the store accepts. So its partition does not stop, and its key continues after a redrive
// or a drop.
func TestMessageThatCannotBeParkedBecomesADeadLetter(t *testing.T) {
	first := func(e store.Effect) bool { return e.Park.ID == "m-1" }
	for name, c := range map[string]struct {
		refuses       func(store.Effect) bool
		bare          bool
		announcements int
	}{
		"parked": {refuses: func(e store.Effect) bool { return first(e) && e.Park.Dead == nil },
			announcements: 1},
		"parked again": {refuses: func(e store.Effect) bool {
			return first(e) && e.Park.Was != nil && e.Park.Dead == nil
		}, announcements: 1},
		"announced": {refuses: func(e store.Effect) bool {
			return first(e) && (e.Park.Dead == nil || len(e.Rows) > 0)
		}},
		"with its payload": {refuses: func(e store.Effect) bool {
			return first(e) && len(e.Park.Message.Data) > 0
		}, bare: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			bad := true
			in := w.over(&odd{Driver: w.db, keeps: true, refuses: c.refuses},
				&inbox.Options{Now: w.clock, Logger: slog.New(slog.DiscardHandler),
					Limits: inbox.Limits{Unacknowledged: 3}, Dead: inbox.Dead{Topic: "dead"}},
				func(ctx context.Context, tx tx, m skald.Received[string]) error {
					if bad && m.Value == "1" {
						return errors.New("declined")
					}
					return keep(ctx, tx, m)
				})
			for n := range 5 {
				w.publish(w.message("long", fmt.Sprint(n+1)))
			}
			tries := 0
			for ; len(w.dead()) == 0 && tries < 100; tries++ {
				w.publish(w.message("other", "x"))
				w.quiet(in)
				w.pass(20 * time.Second)
			}
			w.quiet(in)
			w.expect("other", strings.TrimSpace(strings.Repeat("x ", tries)))
			dead := w.dead()
			if len(dead) != 1 || dead[0].ID != "m-1" || dead[0].Dead.Kind != failure.KindUnkept ||
				!dead[0].Dead.BlocksKey || !strings.Contains(dead[0].Last.Why, "2704") || tries < 16 ||
				(len(dead[0].Message.Data) == 0) != c.bare || len(w.db.Rows()) != c.announcements {
				t.Fatalf("after %d tries dead letters %+v, announced %d", tries, dead, len(w.db.Rows()))
			}
			if h := in.Health(); h.Unacknowledged != 0 || len(h.Paused)+len(h.Stuck) != 0 || !h.Ready {
				t.Errorf("health %+v", h)
			}
			bad = false
			id := dead[0].Identity
			w.apply(store.Effect{Requeue: &store.Requeue{Consumer: "stock", Identity: id}})
			w.pass(time.Minute)
			w.quiet(in)
			if !c.bare {
				w.expect("long", "1 2 3 4 5")
				return
			}
			if dead = w.dead(); len(dead) != 1 || dead[0].Dead.Kind != "permanent" ||
				!strings.Contains(dead[0].Last.Why, inbox.ErrUnkept.Error()) {
				t.Fatalf("redriven, the dead letters are %+v", dead)
			}
			w.apply(store.Effect{Finish: &store.Finish{Consumer: "stock", Identity: id}})
			w.pass(time.Minute)
			w.quiet(in)
			w.expect("long", "2 3 4 5")
		})
	}
}

// If a call returns that its provider is unavailable, the failure does not count. The inbox makes the call
// under its key when the provider is back.
func TestOutageOfAProvider(t *testing.T) {
	w := newWorld(t, 1)
	away, asked := true, 0
	in := w.inbox(&inbox.Options{Now: w.clock}, nil)
	inbox.OnCall(in, said, call.Call[tx, string, string, string]{
		At: call.NewProvider("bank", nil),
		Intent: func(_ context.Context, _ tx, m skald.Received[string]) (string, string, error) {
			return m.Value, "key", nil
		},
		Do: func(context.Context, string, string) (string, error) {
			if asked++; away {
				return "", fmt.Errorf("charge: %w", skald.Outage(syscall.ECONNREFUSED))
			}
			return "done", nil
		},
		Settle: func(_ context.Context, tx tx, m skald.Received[string], o call.Outcome[string]) error {
			return note(tx, "settled", o.Value)
		},
	})
	w.publish(w.message("k", "1"))
	for range 60 {
		w.quiet(in)
		w.pass(9 * time.Second)
	}
	if k := w.kept(); len(k) != 1 || k[0].Attempts != 0 || k[0].Dead != nil || k[0].Call == nil ||
		asked < 12 {
		t.Fatalf("asked %d times, kept %+v", asked, k)
	}
	if s := in.Health().Stuck; len(s) != 1 || !s[0].Uncounted {
		t.Errorf("%+v", s)
	}
	away = false
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("settled", "done")
}

// A message without a type, for example from a plain Kafka producer, is copied completely. A failed copy
// is logged.
func TestDeadLetterWithoutATypeIsCopied(t *testing.T) {
	w := newWorld(t, 1)
	var log strings.Builder
	in := w.inbox(&inbox.Options{Now: w.clock, Dead: inbox.Dead{Topic: "dead", Copy: true},
		Logger: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	in.Handle("orders", "",
		func(context.Context, tx, skald.Message) error { return skald.Permanent(errors.New("never")) })
	plain, large := w.message("k", "x"), w.message("l", "x")
	plain.Type, large.Type = "", ""
	large.Headers = []skald.Header{{Name: "own", Value: []byte(strings.Repeat("x", 16<<10))}}
	w.publish(plain, large)
	w.quiet(in)
	rows := w.db.Rows()
	if len(rows) != 2 || rows[0].Type != failure.CopyType || string(rows[0].Data) != string(plain.Data) ||
		rows[1].Type != failure.AnnouncementType {
		t.Fatalf("said %+v", rows)
	}
	if n := strings.Count(log.String(), "cannot be copied whole"); n != 1 ||
		!strings.Contains(log.String(), large.ID) {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

// The copy of a dead letter without an id has its payload, its headers and its identity, even if its
// envelope cannot be read. Each error has that identity instead of an empty id.
func TestDeadLetterWithoutAnIDIsCopied(t *testing.T) {
	w := newWorld(t, 1)
	in := w.inbox(&inbox.Options{Now: w.clock, Dead: inbox.Dead{Topic: "dead", Copy: true},
		Identity: inbox.Identity{Of: inbox.ByField("/erp", "order")}}, nil)
	in.Handle("orders", "created",
		func(context.Context, tx, skald.Message) error { return skald.Permanent(errors.New("never")) })
	known, unknown := w.message("k", ""), w.message("l", "")
	for _, m := range []*skald.Message{&known, &unknown} {
		m.ID, m.Source, m.Type, m.Headers = "", "", "created",
			[]skald.Header{{Name: "tenant", Value: []byte("acme")}}
	}
	known.Data, unknown.Data = []byte(`{"order":"o-1"}`), []byte("not json")
	w.publish(known, unknown)
	w.quiet(in)
	header := func(m store.Row, name string) string {
		at := slices.IndexFunc(m.Headers, func(h skald.Header) bool { return h.Name == name })
		if at < 0 {
			return "none"
		}
		return string(m.Headers[at].Value)
	}
	rows := w.db.Rows()
	if len(rows) != 2 || string(rows[0].Data) != string(known.Data) ||
		string(rows[1].Data) != string(unknown.Data) {
		t.Fatalf("said %+v", rows)
	}
	if id, source, why := header(rows[0], "x-original-id"), header(rows[0], "x-original-source"),
		header(rows[0], "x-failed-reason"); id != "o-1" || source != "/erp" ||
		why != `handle created "o-1": permanent: never` {
		t.Errorf("id %q, source %q, reason %q", id, source, why)
	}
	if header(rows[1], "tenant") != "acme" || header(rows[1], "x-original-id") == "" ||
		!strings.Contains(header(rows[1], "x-failed-reason"), inbox.ErrNoID.Error()) {
		t.Errorf("headers of a copy without identity: %q", rows[1].Headers)
	}
}

// A process that has just started reports the messages that others parked before, and the dead letters.
func TestHealthAfterARestart(t *testing.T) {
	w := newWorld(t, 1)
	fails := func(_ context.Context, _ tx, m skald.Received[string]) error {
		if m.Value == "dead" {
			return skald.Permanent(errors.New("never"))
		}
		return errors.New("not yet")
	}
	first := w.stepper(fails)
	w.publish(w.message("k", "dead"), w.message("l", "parked"))
	w.quiet(first)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := w.inbox(&inbox.Options{Now: w.clock, Retry: inbox.Retry{InitialInterval: time.Hour}}, fails)
	w.quiet(second)
	if h := second.Health(); h.Parked != 1 || h.Dead != 1 || len(h.Stuck) != 1 || h.Received != 0 {
		t.Errorf("%+v", h)
	}
}

// A handler that ignores the end of its context is logged once, and listed while it runs.
func TestHandlerThatIgnoresItsContextIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		var log testlog.Log
		free := make(chan struct{})
		in := w.inbox(&inbox.Options{Timeouts: inbox.Timeouts{Handle: time.Second},
			Logger: slog.New(slog.NewTextHandler(&log, nil))},
			func(ctx context.Context, tx tx, m skald.Received[string]) error {
				<-free
				return nil
			})
		w.publish(w.message("k", "1"))
		stop := run(t, in)
		untilFor(t, time.Minute, "it is listed", func() bool { return len(in.Health().Stuck) == 1 })
		if s := in.Health().Stuck[0]; s.ID != "m-1" || !s.Uncounted ||
			!strings.Contains(s.Error, "context ended") {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Minute) // simulated
		if n := strings.Count(log.String(), "ignores that its context ended"); n != 1 {
			t.Errorf("%d lines: %s", n, log.String())
		}
		close(free)
		untilFor(t, time.Minute, "it is over", func() bool {
			s := in.Health().Stuck
			return len(s) == 0 || !strings.Contains(s[0].Error, "still runs")
		})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// connected is a broker with positions for one connection only.
type connected struct{ broker.Subscriber }

func (c connected) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	sub, err := c.Subscriber.Subscribe(ctx, g)
	return connectedSub{sub}, err
}

type connectedSub struct{ broker.Subscription }

func (c connectedSub) Receive(ctx context.Context, most int) (broker.Batch, error) {
	b, err := c.Subscription.Receive(ctx, most)
	for i := range b.Gained {
		b.Gained[i].Origin, b.Gained[i].Started = "", false
	}
	return b, err
}

// With ByPosition, a consumer at a broker with positions for one connection only ends before it handles a
// message.
func TestByPositionIsRefusedWherePositionsDoNotLast(t *testing.T) {
	w := newWorld(t, 1)
	w.publish(w.message("k", "1"))
	in := inbox.New(w.db, connected{w.bus}, "stock",
		&inbox.Options{Identity: inbox.Identity{Of: inbox.ByPosition}, Logger: slog.New(slog.DiscardHandler)})
	inbox.On(in, said, keep)
	if err := in.Run(t.Context()); !errors.Is(err, inbox.ErrPositions) ||
		!strings.Contains(err.Error(), "ByHeader") {
		t.Errorf("%v", err)
	}
	w.expect("k", "")
}

// otherServer is a store with a database that runs on another server than when the partitions began.
type otherServer struct {
	store.Driver[tx]
	begins int
}

func (o *otherServer) Begin(context.Context, store.Intake) (store.Unit[tx], error) {
	o.begins++
	return nil, fmt.Errorf("begin: %w", store.ErrLost)
}

// A message is not parked if the database server has changed. Earlier messages may be lost in that
// database, and will be delivered again before it.
func TestOtherServerParksNothing(t *testing.T) {
	w := newWorld(t, 1)
	db := &otherServer{Driver: w.db}
	in := w.over(db, &inbox.Options{Now: w.clock, Logger: slog.New(slog.DiscardHandler)}, keep)
	w.publish(w.message("a", "1"))
	for range 20 {
		w.quiet(in)
		w.pass(time.Minute)
	}
	got, err := store.ListParked(t.Context(), w.db, store.ParkedQuery{Consumer: "stock", Limit: 10})
	if err != nil || len(got) > 0 || db.begins < 10 || in.Health().Unacknowledged != 1 {
		t.Errorf("%d parked, %d attempts, %+v, %v", len(got), db.begins, in.Health(), err)
	}
}
