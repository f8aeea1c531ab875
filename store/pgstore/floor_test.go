package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// repeat is an old message that was handled, and the compensation of an old step.
type repeat struct {
	mark store.Mark
	step store.Step
}

// repeated handles an old message and takes an old step, which the retention may then delete.
func repeated(ctx context.Context, t *testing.T, b *bed, s *Store) (*repeat, error) {
	m := aMark()
	m.Consumer = m.ID // it has no floor yet
	m.ID, m.KeyOrder, m.Key = uuid7.New(time.Now().Add(-100*admin.Day)), store.Arriving, []byte("k")
	begun := time.Now().Add(-100 * admin.Day)
	step := store.Step{Consumer: m.Consumer, Saga: m.ID, Name: "charge", State: store.StepDone,
		Identity: m.Identity, Begun: begun}
	u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}, Steps: []store.Step{step}})
	if err != nil {
		return nil, err
	}
	if err := u.Commit(ctx); err != nil {
		return nil, err
	}
	b.Age(t, 95*admin.Day)
	step.State = store.StepUndone
	return &repeat{m, step}, nil
}

// again repeats the message, statement by statement, and undoes the step in the same transaction.
func (r *repeat) again(ctx context.Context, s *Store, a *actor, level store.Isolation) error {
	var found store.Found
	in := store.Intake{Marks: []store.Mark{r.mark}, Steps: []store.Step{r.step}, Isolation: level}
	calls, err := s.intake(in, &found)
	if err != nil {
		return err
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: isoLevel(level)})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	for _, c := range s.bind(in, calls) {
		if c.Need != nil && !c.Need() {
			continue
		}
		a.gate()
		if err := sqlexec.Send(ctx, conn.Conn(), []sqlexec.Call{c}); err != nil {
			return err
		}
	}
	if mark := found.Marks[0].Outcome; mark != store.Done && mark != store.TooOld {
		return fmt.Errorf("a message that was taken is %v", mark)
	}
	if step := found.Steps[0].State; step != store.StepDone && step != store.StepTooOld {
		return fmt.Errorf("a step that was taken is %v", step)
	}
	return nil
}

// forgetting runs the retention against a repeat and a compensation at a level of isolation, in every order
// of their statements.
func forgetting(t *testing.T, b *bed, level store.Isolation, spoil func(*Store)) error {
	ctx := context.Background()
	plain := b.store(t)
	late, early := fmt.Sprintf("repeat %d %s", level, b.name()),
		fmt.Sprintf("retention %d %s", level, b.name())
	s := New(b.actorPool(t, late), &Options{Schema: b.schema})
	keeper, r := b.stepStore(t, early, "DELETE FROM")
	if spoil != nil {
		spoil(s)
		spoil(keeper)
	}
	forgot := false
	for _, merge := range merges(3, 4) {
		one, err := repeated(ctx, t, b, plain)
		if err != nil {
			return err
		}
		var done store.Maintained
		as := [2]*actor{act(late, func(a *actor) error {
			err := one.again(ctx, s, a, level)
			if Outage(err) {
				return nil // a collision: nothing is stored, and the message is retried
			}
			return err
		}), act(early, func(a *actor) (err error) {
			r.actor = a
			done, err = keeper.Maintain(ctx, store.Maintain{})
			return err
		})}
		if err := play(ctx, b.pool, merge, as[0], as[1], nil); err != nil {
			return fmt.Errorf("%s: %w", written(merge), err)
		}
		forgot = forgot || done.Marks > 0 && done.Steps > 0
	}
	if !forgot {
		return errors.New("the retention never took anything")
	}
	return nil
}

// TestEveryMergeOfRetentionAndRepeat checks that a repeat and a compensation are known or too old, at each
// level and in each order with the retention.
// Interleaving 4.
func TestEveryMergeOfRetentionAndRepeat(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, level := range []store.Isolation{store.ReadCommitted, store.RepeatableRead, store.Serializable} {
		if err := forgetting(t, b, level, nil); err != nil {
			t.Errorf("at level %d: %v", level, err)
		}
		b.clear(t)
	}
	change := func(name, old, new string) func(*Store) {
		return func(s *Store) {
			if !strings.Contains(s.pg.SQL[name], old) {
				t.Errorf("%s has no %q", name, old)
			}
			s.pg.SQL[name] = strings.ReplaceAll(s.pg.SQL[name], old, new)
		}
	}
	for bug, wrong := range map[string]func(*Store){
		"the index alone is asked for a mark": change("InsertMark", "AND k.id =",
			"AND k.outcome = 9 AND k.id ="),
		"and for a step": change("UndoStep", "o.saga = $2::text", "o.saga = $2::text || 'x'"),
		"the floor is not looked at": change("InsertMark", "f.consumer = $1::text",
			"f.consumer = $1::text || 'x'"),
		"no floor is raised": change("DeleteMarks", "FROM d GROUP BY", "FROM d WHERE false GROUP BY"),
	} {
		if err := forgetting(t, b, store.RepeatableRead, wrong); err == nil {
			t.Errorf("%s: not found", bug)
		} else {
			t.Logf("%s: found: %v", bug, err)
		}
		b.clear(t)
	}
}
