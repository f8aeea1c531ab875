package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// gated is a store of which each call, and the end of each unit, is a step of an actor.
type gated struct {
	*Store
	name  string
	actor *actor
	lose  bool // the result of the first commit is lost
}

var errLine = fmt.Errorf("the line broke: %w", context.DeadlineExceeded)

func (g *gated) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	g.actor.gate()
	return g.Store.Seen(ctx, consumer, ids)
}

func (g *gated) Begin(ctx context.Context, in store.Intake) (store.Unit[pgx.Tx], error) {
	g.actor.gate()
	u, err := g.Store.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return &gatedUnit{u, g}, nil
}

type gatedUnit struct {
	store.Unit[pgx.Tx]
	g *gated
}

func (u *gatedUnit) Commit(ctx context.Context, es ...store.Effect) error {
	u.g.actor.gate()
	err := u.Unit.Commit(ctx, es...)
	if err == nil && u.g.lose {
		u.g.lose = false
		return errLine
	}
	return err
}

func (u *gatedUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	u.g.actor.gate()
	stored, err := u.Unit.Rollback(ctx, instead...)
	if err == nil && len(instead) > 0 && u.g.lose {
		u.g.lose = false
		return make([]bool, len(instead)), errLine
	}
	return stored, err
}

// consume runs an inbox until m is done, known or rejected. The brokers of the two inboxes are independent,
// as after a shard moved away from a paused instance.
func consume(ctx context.Context, b *bed, g *gated, bus broker.Broker, no bool) func(a *actor) error {
	return func(a *actor) error {
		g.actor = a
		in := inbox.New(g, bus, "c", &inbox.Options{Retry: inbox.Retry{InitialInterval: 1, MaxInterval: 1},
			Logger: slog.New(slog.DiscardHandler)})
		in.Handle("orders", "order.placed", func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
			g.actor.gate()
			if _, err := tx.Exec(ctx, b.q(`INSERT INTO {effect} VALUES ($1)`), m.ID); err != nil {
				return err
			}
			if no {
				return skald.Reject(errors.New("no"), skald.Draft{Topic: "said", Type: "no", Value: 1})
			}
			return g.Write(ctx, tx, store.Effect{Rows: []skald.Message{aMessage("said")}})
		})
		for {
			if _, err := in.Step(ctx); err != nil {
				return err
			}
			if h := in.Health(); h.Handled+h.Rejected+h.Duplicates > 0 && h.Unacknowledged == 0 {
				return in.Close(ctx)
			}
		}
	}
}

// TestTwoInboxesOnOneMessage runs two inboxes with the same message in every order of their steps. The
// handler accepts or rejects, and the result of a commit may be lost: there is one effect.
func TestTwoInboxesOnOneMessage(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.exec(t, `CREATE TABLE {effect} (id text)`)
	ctx := context.Background()
	var gs [2]*gated
	for i := range gs {
		name := fmt.Sprintf("inbox %d %s", i, b.name())
		gs[i] = &gated{Store: New(b.actorPool(t, name), &Options{Schema: b.schema}), name: name}
	}
	for _, no := range []bool{false, true} {
		for i, merge := range merges(4, 4) {
			m := aMessage("k")
			m.Source = "/elsewhere"
			var as [2]*actor
			for j, g := range gs {
				bus := membroker.New(nil)
				if err := bus.MakeTopics(ctx, 1, "orders"); err != nil {
					t.Fatal(err)
				}
				if err := bus.Publish(ctx, []skald.Message{m}).Wait(ctx); err != nil {
					t.Fatal(err)
				}
				g.lose = i%3 == j
				as[j] = act(g.name, consume(ctx, b, g, bus, no))
			}
			if err := play(ctx, b.pool, merge, as[0], as[1], nil); err != nil {
				t.Fatalf("no %v, %s: %v", no, written(merge), err)
			}
			want := 1
			if no {
				want = 0
			}
			effects, said := one[int](t, b, `SELECT count(*) FROM {effect}`),
				one[int](t, b, `SELECT count(*) FROM {skald_outbox}`)
			if effects != want || said != 1 {
				t.Fatalf("no %v, %s: %d effects, want %d; %d messages, want 1", no, written(merge),
					effects, want, said)
			}
			b.exec(t, `DELETE FROM {effect}`)
			b.exec(t, `DELETE FROM {skald_outbox}`)
		}
	}
}

// intakes runs two intakes of one message in every order of their statements.
func intakes(t *testing.T, b *bed, id func() string, spoil func(*Store)) error {
	ctx := context.Background()
	var ss [2]*Store
	for i := range ss {
		ss[i] = New(b.actorPool(t, fmt.Sprintf("intake %d %s", i, b.name())), &Options{Schema: b.schema})
		if spoil != nil {
			spoil(ss[i])
		}
	}
	for _, merge := range merges(4, 4) {
		mark := store.Mark{Consumer: "c", Identity: store.Identity{Source: "/s", ID: id()},
			Outcome: store.Done}
		var as [2]*actor
		for i, s := range ss {
			as[i] = act(fmt.Sprintf("intake %d %s", i, b.name()),
				func(a *actor) error { return s.takeByStatement(ctx, b, a, mark) })
		}
		if err := play(ctx, b.pool, merge, as[0], as[1], nil); err != nil {
			return fmt.Errorf("%s: %w", written(merge), err)
		}
		if n := one[int](t, b, `SELECT count(*) FROM {effect} WHERE id = $1`, mark.ID); n != 1 {
			return fmt.Errorf("%s: %d effects", written(merge), n)
		}
	}
	return nil
}

// takeByStatement handles one message with Skald's own statements: mark, find, effect, commit.
func (s *Store) takeByStatement(ctx context.Context, b *bed, a *actor, mark store.Mark) error {
	var found store.Found
	calls, err := s.intake(store.Intake{Marks: []store.Mark{mark}}, &found)
	if err != nil {
		return err
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := sqlexec.Send(ctx, conn.Conn(), []sqlexec.Call{sqlexec.Call{SQL: sqlexec.Begin}}); err != nil {
		return err
	}
	for _, c := range calls {
		a.gate()
		if err := sqlexec.Send(ctx, conn.Conn(), []sqlexec.Call{c}); err != nil {
			return errors.Join(err, sqlexec.Undo(ctx, conn.Conn()))
		}
	}
	if found.Marks[0].Outcome != store.Fresh {
		err := sqlexec.Undo(ctx, conn.Conn())
		if got := found.Marks[0].Outcome; got != mark.Outcome {
			err = errors.Join(err, fmt.Errorf("a rival's mark is not found: %v", got))
		}
		return err
	}
	a.gate()
	if _, err := conn.Exec(ctx, b.q(`INSERT INTO {effect} VALUES ($1)`), mark.ID); err != nil {
		return err
	}
	a.gate()
	if late := s.pg.SQL["late mark"]; late != "" { // of a seeded bug
		if _, err := conn.Exec(ctx, late, "c", mark.Source, mark.ID); err != nil {
			return err
		}
	}
	return sqlexec.SendCommit(ctx, conn.Conn(), nil)
}

// TestEveryMergeOfTwoIntakes runs two intakes of one message in every order of their statements.
// Interleaving 13.
func TestEveryMergeOfTwoIntakes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.exec(t, `CREATE TABLE {effect} (id text)`)
	if err := intakes(t, b, func() string { return aMessage("").ID }, nil); err != nil {
		t.Error(err)
	}
	n := 0
	if err := intakes(t, b, func() string { n++; return fmt.Sprint("timeless ", n) }, nil); err != nil {
		t.Errorf("without a time in the id: %v", err)
	}
}
