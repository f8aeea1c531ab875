package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
)

// TestStepThatIsForgottenUnderACompensation checks that a compensation that waits for the row that is being
// deleted finds the floor, and not a missing step.
// Interleaving 1.
func TestStepThatIsForgottenUnderACompensation(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), context.Background()
	begun := time.Now().Add(-100 * admin.Day)
	step := store.Step{Consumer: "stock", Saga: "a", Name: "charge", State: store.StepDone,
		Identity: aMark().Identity, Begun: begun}
	u, err := s.Begin(ctx, store.Intake{Steps: []store.Step{step}})
	if err == nil {
		err = u.Commit(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.Age(t, 100*admin.Day)
	var came <-chan struct{}
	var found store.Step
	err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		var n, pid int64
		if err := tx.QueryRow(ctx, s.pg.SQL["ForgetSteps"],
			time.Now().Add(-90*admin.Day)).Scan(&n); err != nil || n != 1 {
			t.Fatalf("%d steps are forgotten: %v", n, err)
		}
		if err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return err
		}
		done := make(chan struct{})
		came = done
		go func() {
			defer close(done)
			undo := step
			undo.State, undo.Identity = store.StepUndone, aMark().Identity
			u, err := s.Begin(ctx, store.Intake{Steps: []store.Step{undo}, Wait: 5 * time.Minute})
			if err != nil {
				t.Error(err)
				return
			}
			found = u.Found().Steps[0]
			_, _ = u.Rollback(ctx)
		}()
		for until := time.Now().Add(5 * time.Minute); !one[bool](t, b,
			`SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1::integer = ANY (pg_blocking_pids(pid)))`,
			pid); {
			if time.Now().After(until) {
				t.Fatal("the compensation does not wait for the step")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	<-came
	if found.State != store.StepTooOld {
		t.Errorf("the compensation found %v", found.State)
	}
}
