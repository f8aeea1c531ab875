package inbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/seeded"
	"github.com/skald-go/skald/store"
)

// Bugs of two instances at one shared subscription.
const (
	shortLease   = "a claim has a lease of a second"
	missingMarks = "an intake takes no mark"
)

// TestSeededBugsOfSharedShapes: the tests of shared subscriptions find each bug.
// TestSeededBugOfThePausedClaimer has one more.
func TestSeededBugsOfSharedShapes(t *testing.T) {
	need.Postgres(t)
	need.NATS(t)
	need.RabbitMQ(t)
	for _, c := range []struct{ bug, finds, says string }{
		{shortLease, "^TestSharedAndCutOff$/a_durable_of_NATS",
			`runs twice at the same time|took effect twice|are left to it`},
		{missingMarks, "^TestSharedAndCutOff$/a_queue_of_RabbitMQ", `runs twice at the same time|took effect twice`},
	} {
		t.Run(c.bug, func(t *testing.T) {
			t.Parallel()
			seeded.Find(t, c.bug, c.finds, c.says)
		})
	}
}

// storedWrongly returns the store with the bug of this process.
func storedWrongly(db store.Driver[pgx.Tx]) store.Driver[pgx.Tx] {
	switch seeded.Bug() {
	case shortLease:
		return hasty{db}
	case missingMarks:
		return markless{db}
	}
	return db
}

type hasty struct{ store.Driver[pgx.Tx] }

func (h hasty) Claim(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	w.Lease = time.Second
	return h.Driver.Claim(ctx, w)
}

type markless struct{ store.Driver[pgx.Tx] }

func (m markless) Begin(ctx context.Context, in store.Intake) (store.Unit[pgx.Tx], error) {
	n := len(in.Marks)
	in.Marks = nil
	u, err := m.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return marklessUnit{u, n}, nil
}

type marklessUnit struct {
	store.Unit[pgx.Tx]
	marks int
}

func (u marklessUnit) Found() store.Found {
	f := u.Unit.Found()
	f.Marks, f.Follows = make([]store.Verdict, u.marks), false
	return f
}
