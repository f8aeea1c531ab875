package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// counted returns a step that writes a new line in each run, so that repetitions are visible. It records its
// undos in order.
func counted(name string, n *int) *saga.Step[trip, string] {
	do := func(_ context.Context, tx tx, r saga.Run[trip]) (string, error) {
		*n++
		line := fmt.Sprint(r.Key, " ", name, " ", *n)
		switch r.In.Fail[name] {
		case "reject":
			return "", skald.Reject(errors.New("no"))
		case "once":
			if r.Attempt == 1 {
				return "", errors.New("not this time")
			}
		}
		return line, tx.Put(line, "done")
	}
	undo := func(_ context.Context, tx tx, r saga.Run[trip], line string) error {
		if err := tx.Update("undone "+r.Key,
			func(old string, _ bool) string { return old + name + " " }); err != nil {
			return err
		}
		if r.In.Fail["undo "+name] == "once" && r.Attempt == 1 {
			return errors.New("not this time")
		}
		return tx.Delete(line)
	}
	soon := saga.Policy{Attempts: 3, InitialInterval: time.Millisecond}
	return saga.Do(name, do, undo, saga.Retry(soon),
		saga.RetryUndo(saga.Policy{InitialInterval: time.Millisecond}))
}

func oldTrips(n *int) *saga.Definition[trip] {
	return saga.New("trip", &saga.Options[trip]{Key: tripKey, Deadline: time.Hour}, counted("flight", n),
		counted("hotel", n), counted("car", n))
}

func newTrips(n *int) *saga.Definition[trip] {
	return saga.New("trip", &saga.Options[trip]{Key: tripKey, Deadline: time.Hour}, counted("flight", n),
		counted("car", n))
}

// someTrips returns two trips. In one a step succeeds at the second attempt, in the other an undo does.
func someTrips() []trip {
	return []trip{{ID: "a", Fail: map[string]string{"hotel": "once"}},
		{ID: "b", Fail: map[string]string{"car": "reject", "undo flight": "once"}}}
}

// linesOf reports whether each step was done once, or undone once and in order.
func linesOf(db *memstore.Store, key string, done bool, lines ...int) error {
	n, undone := left(db, key), db.User()["undone "+key]
	for _, want := range lines {
		if n == want && (done && undone == "" || !done && undone == "hotel flight ") {
			return nil
		}
	}
	return fmt.Errorf("%s left %d lines, and had %q undone", key, n, undone)
}

// twoEngines run trips, one of them with a clock that is three days ahead.
func twoEngines(b wiring) func(w *sagatest.World) error {
	return stage{
		def: func() (*saga.Definition[trip], func(*memstore.Store, string, bool) error) {
			return oldTrips(new(int)), func(db *memstore.Store, key string, done bool) error {
				return linesOf(db, key, done, map[bool]int{true: 3, false: 0}[done])
			}
		},
		want:  map[string]bool{"a": true},
		ins:   someTrips(),
		ahead: 72 * time.Hour,
	}.build(b)
}

// sharers returns a world with a trip whose steps all share a transaction.
func sharers(b wiring) func(w *sagatest.World) error {
	return stage{
		def: func() (*saga.Definition[trip], func(*memstore.Store, string, bool) error) {
			return oldTrips(new(int)), func(db *memstore.Store, key string, done bool) error {
				return linesOf(db, key, done, 3)
			}
		},
		want: map[string]bool{"a": true},
		ins:  []trip{{ID: "a"}},
	}.build(b)
}

// delays returns a stage of trips with a wait.
func delays() stage {
	return stage{
		def: func() (*saga.Definition[trip], func(*memstore.Store, string, bool) error) {
			rest := saga.Wait[trip]("rest", saga.Signal[int]{Name: "woken"}, saga.Timeout(time.Second),
				saga.SkipOnTimeout())
			return saga.New("trip", &saga.Options[trip]{Key: tripKey}, ledger("flight"), rest, ledger("car")),
				func(*memstore.Store, string, bool) error { return nil }
		},
		want: map[string]bool{"a": true},
		ins:  []trip{{ID: "a"}, {ID: "b", Fail: map[string]string{"car": "reject"}}},
	}
}

// forgotten returns a world with a retention that deletes sagas as soon as they have ended.
func forgotten(b wiring) func(w *sagatest.World) error {
	return func(w *sagatest.World) error {
		db, d := memstore.New(&memstore.Options{Now: w.Now, Wait: time.Millisecond}), oldTrips(new(int))
		if err := startAll(w, db, d, someTrips()...); err != nil {
			return err
		}
		w.Process("engine", func(p *sagatest.Process) error {
			e, err := saga.NewEngine(session(p, db, b.engine), quietly(w), d)
			if err == nil {
				p.Step(e)
			}
			return err
		})
		w.Process("maintenance", func(p *sagatest.Process) error {
			own := session(p, db, b.operator)
			p.Step(stepping(func(ctx context.Context) (bool, error) {
				_, err := own.Maintain(ctx, store.Maintain{Keep: store.Retention{Sagas: time.Nanosecond}})
				return false, err
			}))
			return nil
		})
		w.Finally("what has ended is gone, and whole", func() error {
			ss, err := store.ListSagas(context.Background(), db, store.SagaQuery{})
			for _, s := range ss {
				err = errors.Join(err, fmt.Errorf("%s is %s at %s", s.Key, s.Status, s.Step))
			}
			return errors.Join(err, linesOf(db, "a", true, 3), linesOf(db, "b", false, 0))
		})
		return nil
	}
}

// builds returns a world with two builds. The older one begins trips, and is down for a while after a crash.
// The newer one has no hotel step.
func builds(b wiring) func(w *sagatest.World) error {
	return func(w *sagatest.World) error {
		db, n := memstore.New(&memstore.Options{Now: w.Now, Wait: time.Millisecond}), new(int)
		was, is := oldTrips(n), newTrips(n)
		if err := startAll(w, db, was, someTrips()...); err != nil {
			return err
		}
		process := func(name string, d *saga.Definition[trip], wire *tamper) *sagatest.Process {
			return w.Process(name, func(p *sagatest.Process) error {
				e, err := saga.NewEngine(session(p, db, wire), quietly(w), d)
				if err == nil {
					p.Step(e)
				}
				return err
			})
		}
		process("old", was, nil).Down = 10 * time.Second
		process("new", is, b.engine)
		w.Finally("each is whole", func() error {
			ss, err := store.ListSagas(context.Background(), db, store.SagaQuery{})
			for _, s := range ss {
				if s.Ended.IsZero() {
					err = errors.Join(err, fmt.Errorf("%s is %s at %s", s.Key, s.Status, s.Step))
				}
			}
			if n := left(db, "b"); n > 0 {
				err = errors.Join(err, fmt.Errorf("b left %d lines", n))
			}
			return err
		})
		return nil
	}
}

// shop writes an order and starts its saga in one transaction, without a retry.
func shop(b wiring) func(w *sagatest.World) error {
	return func(w *sagatest.World) error {
		db, d := memstore.New(&memstore.Options{Now: w.Now, Wait: time.Millisecond}), oldTrips(new(int))
		tried := false
		w.Process("shop", func(p *sagatest.Process) error {
			db := session(p, db, b.engine)
			e, err := saga.NewEngine(db, quietly(w), d)
			if err != nil {
				return err
			}
			p.Step(e, stepping(func(ctx context.Context) (bool, error) {
				if tried {
					return false, nil
				}
				tried = true
				u, err := db.Begin(ctx, store.Intake{})
				if err != nil {
					return true, nil
				}
				if err := u.Tx().Put("order a", "taken"); err != nil {
					return true, err
				}
				if _, err := saga.Bind(e, d).Start(ctx, u.Tx(), trip{ID: "a"}); err != nil {
					_, _ = u.Rollback(ctx)
					return true, nil
				}
				return true, u.Commit(ctx)
			}))
			return nil
		})
		w.Finally("with its order", func() error {
			ss, err := store.ListSagas(context.Background(), db, store.SagaQuery{})
			if _, taken := db.User()["order a"]; taken != (len(ss) == 1) || taken && ss[0].Status != "done" {
				return fmt.Errorf("%d sagas, without its order or with it: %v", len(ss), db.User())
			}
			return err
		})
		return nil
	}
}

// starters returns a world in which processes start two sagas with their orders, and one without a
// transaction. They repeat this until they succeed.
func starters(b wiring) func(w *sagatest.World) error {
	return func(w *sagatest.World) error {
		db, d := memstore.New(&memstore.Options{Now: w.Now, Wait: time.Millisecond}), oldTrips(new(int))
		tried, now := false, false
		w.Process("shop", func(p *sagatest.Process) error {
			db := session(p, db, b.engine)
			e, err := saga.NewEngine(db, quietly(w), d)
			if err != nil {
				return err
			}
			p.Step(e, stepping(func(ctx context.Context) (bool, error) {
				if tried {
					return false, nil
				}
				tried = true
				u, err := db.Begin(ctx, store.Intake{})
				if err != nil {
					return true, nil
				}
				err = u.Tx().Put("order", "taken")
				if err == nil {
					_, err = saga.Bind(e, d).StartAll(ctx, u.Tx(), []trip{{ID: "b"}, {ID: "a"}})
				}
				if err != nil {
					_, _ = u.Rollback(ctx)
					return true, nil
				}
				return true, u.Commit(ctx)
			}), stepping(func(ctx context.Context) (bool, error) {
				if now {
					return false, nil
				}
				_, err := saga.Bind(e, d).StartNow(ctx, trip{ID: "c"})
				now = err == nil
				return true, nil
			}))
			return nil
		})
		w.Finally("all or none", func() error {
			ss, err := store.ListSagas(context.Background(), db, store.SagaQuery{})
			_, taken := db.User()["order"]
			if all := len(ss); taken && all != 3 || !taken && all != 1 {
				return fmt.Errorf("%d sagas, without their order or with it: %v", all, db.User())
			}
			for _, s := range ss {
				if s.Status != "done" || left(db, s.Key) != 3 {
					err = errors.Join(err, fmt.Errorf("%s is %s, and left %d lines", s.Key, s.Status,
						left(db, s.Key)))
				}
			}
			return err
		})
		return nil
	}
}

// packs returns a saga in which another service packs an order, and which is then paid for or not.
func packs(retry saga.Policy) *saga.Definition[order] {
	line := func(r saga.Run[order]) stand { return stand{Order: r.Key} }
	pack := saga.Command("pack", packIt, line,
		saga.Reply(packed, saga.RefusedBy(short, func(s string) string { return s })),
		saga.UndoBy(unpackIt, line, saga.Reply(unpacked)), saga.Retry(retry))
	pay := saga.Do("pay", func(_ context.Context, tx tx, r saga.Run[order]) (int, error) {
		if r.In.Cents < 0 {
			return 0, skald.Reject(errors.New("no"))
		}
		return 0, tx.Put(r.Key+" paid", "yes")
	}, nil, saga.Pivot())
	return saga.New("packing", &saga.Options[order]{Key: orderID}, pack, pay)
}

// participants returns a world with an engine and a service that packs for it.
func participants(b wiring) func(w *sagatest.World) error {
	return serving(b, saga.Policy{}, false)
}

// impatient returns a world whose engine sends a command again before the service has answered. The service
// then refuses the first command and performs the second.
func impatient(b wiring) func(w *sagatest.World) error {
	return serving(b, saga.Policy{Attempts: 3, InitialInterval: time.Millisecond, Timeout: 2 * time.Second},
		true)
}

// serving has orders packed, one of which cannot be paid for.
func serving(b wiring, retry saga.Policy, refuse bool) func(w *sagatest.World) error {
	return func(w *sagatest.World) error {
		db, bus := memstore.New(&memstore.Options{Now: w.Now, Wait: time.Millisecond}), membroker.New(nil)
		if err := bus.MakeTopics(context.Background(), 1, "packed"); err != nil {
			return err
		}
		d, begun := packs(retry), db.BeginTx()
		starter, err := saga.NewEngine(db, quietly(w), d)
		if err != nil {
			return err
		}
		for _, o := range []order{{ID: "a", Cents: 1}, {ID: "b", Cents: -1}} {
			if _, err := saga.Bind(starter, d).Start(context.Background(), begun, o); err != nil {
				return err
			}
		}
		if err := begun.Commit(); err != nil {
			return err
		}
		w.Process("engine", func(p *sagatest.Process) error {
			db := session(p, db, b.engine)
			e, err := saga.NewEngine(db, quietly(w), d)
			if err != nil {
				return err
			}
			in := inbox.New(db, sagatest.CrashBroker(p, bus.Client()), "orders",
				&inbox.Options{Now: w.Now, NewID: w.NewID,
					Logger: slog.New(slog.DiscardHandler), Timeouts: inbox.Timeouts{Wait: time.Millisecond,
						Handle: time.Second}, Retry: inbox.Retry{InitialInterval: time.Microsecond,
						MaxInterval: time.Millisecond}})
			answers(e, in, d, b.bare)
			p.Step(e, in)
			return nil
		})
		s := &service{w: w, db: db, bus: bus, refuse: refuse, packed: map[string]bool{},
			refused: map[string]skald.Message{}}
		w.Process("service", func(p *sagatest.Process) error {
			p.Step(s)
			return nil
		})
		w.Finally("packed and paid, or neither", func() error {
			ss, err := store.ListSagas(context.Background(), db, store.SagaQuery{})
			for _, is := range ss {
				paid, done := db.User()[is.Key+" paid"] == "yes", is.Status == "done"
				if is.Ended.IsZero() || done != (is.Key == "a") || paid != done || s.packed[is.Key] != done {
					err = errors.Join(err, fmt.Errorf("%s is %s (stuck: %v) at %s, packed: %v, paid: %v",
						is.Key, is.Status, is.Stuck, is.Step, s.packed[is.Key], paid))
				}
			}
			return err
		})
		return nil
	}
}

// answers handles replies. If bare, they come from a service that does not set the cause.
func answers(e *saga.Engine[tx], in *inbox.Inbox[tx], d *saga.Definition[order], bare bool) {
	if !bare {
		e.Answers(in)
		return
	}
	for _, k := range e.Replies() {
		in.Handle(k.Topic, k.Type, func(ctx context.Context, tx tx, m skald.Message) error {
			m.CausationID = ""
			_, err := saga.Bind(e, d).Answer(ctx, tx, string(m.Key), m)
			return err
		})
	}
}

// service packs and unpacks, once and without a fault. If it is to refuse, it refuses the first command,
// and replies so after it has performed the second.
type service struct {
	w       *sagatest.World
	db      *memstore.Store
	bus     *membroker.Broker
	refuse  bool
	read    int
	packed  map[string]bool
	refused map[string]skald.Message
}

func (s *service) Step(ctx context.Context) (bool, error) {
	rows := s.db.Rows()[s.read:]
	for _, row := range rows {
		var v stand
		if err := json.Unmarshal(row.Data, &v); err != nil {
			return false, err
		}
		var says []skald.Message
		refusal, again := s.refused[v.Order]
		switch {
		case row.Type == "unpack":
			s.packed[v.Order] = false
			says = append(says, s.reply(row.Message, "unpacked"))
		case s.refuse && !again:
			s.refused[v.Order] = s.reply(row.Message, "short")
		default:
			s.packed[v.Order] = true
			if again && refusal.ID != "" {
				says = append(says, refusal)
				s.refused[v.Order] = skald.Message{}
			}
			says = append(says, s.reply(row.Message, "packed"))
		}
		s.read++
		if err := s.bus.Publish(ctx, says).Wait(ctx); err != nil {
			return true, err
		}
	}
	return len(rows) > 0, nil
}

func (s *service) reply(to skald.Message, typ string) skald.Message {
	return skald.Message{ID: s.w.NewID(s.w.Now()), Source: "/service", Topic: "packed", Type: typ,
		Key: to.Key, Time: s.w.Now(),
		CorrelationID: to.CorrelationID, CausationID: to.ID, ContentType: "application/json",
		Data: []byte(`"` + strings.ToLower(typ) + `"`)}
}
