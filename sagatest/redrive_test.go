package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
)

// buildRedriving returns a world with one key. The undo of a step is a dead letter that does not block the
// key, and an operator redrives it after some rounds. At that time the step arrives, too. Both call the bank.
func buildRedriving[TTx any](open opening[TTx], rounds int) func(*sagatest.World) error {
	return func(w *sagatest.World) error {
		on, err := open(w)
		if err != nil {
			return err
		}
		r := &refunding[TTx]{w: w, on: on, bank: &tellers{ledger: map[string]int{},
			refused: map[string]bool{}}}
		bus := membroker.New(nil)
		if err := bus.MakeTopics(context.Background(), 1, "orders", "cancels"); err != nil {
			return err
		}
		undo, take := (&barring[TTx]{}).message(called, 0, "b"), (&barring[TTx]{}).message(tried, 0, "b")
		undo.Key, take.Key = []byte("k"), []byte("k")
		letter := store.Parked{Consumer: "consumer",
			Identity: store.Identity{Source: undo.Source, ID: undo.ID}, Message: undo, Attempts: 9,
			Dead: &store.Death{Kind: "attempts"}}
		_, err = on.raw.Apply(context.Background(), store.Effect{Park: &store.Park{Parked: letter}})
		if err == nil {
			err = bus.Publish(context.Background(), []skald.Message{take}).Wait(context.Background())
		}
		if err != nil {
			return err
		}
		for _, name := range []string{"one", "two"} {
			w.Process(name, func(p *sagatest.Process) error { return r.session(p, name, bus) })
		}
		w.Process("operator", func(p *sagatest.Process) error {
			p.Step(&release[TTx]{on.session(p), rounds})
			return nil
		})
		w.Finally("taken_and_undone_once_or_never", func() error { return r.undone("b") })
		w.Finally("nothing_kept", func() error { return empty(on.raw) })
		return nil
	}
}

// undone checks the state of the saga and of the bank.
func (r *refunding[TTx]) undone(saga string) error {
	user, err := r.on.user()
	if err != nil {
		return err
	}
	got, moved, back := strings.TrimSpace(user[saga]), r.bank.ledger[saga], r.bank.ledger["x"+saga+"-back"]
	if got == "" && moved == 0 && back == 0 || got == "took undid" && moved == 1 && back == 1 {
		return nil
	}
	return fmt.Errorf("it has %q, the bank moved %v", got, r.bank.ledger)
}

// release redrives dead letters after some rounds.
type release[TTx any] struct {
	db     store.Driver[TTx]
	rounds int
}

func (r *release[TTx]) Step(ctx context.Context) (bool, error) {
	if r.rounds--; r.rounds >= 0 {
		return true, nil
	}
	yes := true
	dead, err := store.ListParked(ctx, r.db, store.ParkedQuery{Dead: &yes, Bare: true, Limit: 1})
	if err != nil || len(dead) == 0 {
		return false, err
	}
	if dead[0].Dead.Kind != "attempts" {
		return false, errors.New("a letter that nobody expects: " + dead[0].Last.Why)
	}
	_, err = r.db.Apply(ctx, store.Effect{Requeue: &store.Requeue{Consumer: dead[0].Consumer,
		Identity: dead[0].Identity}})
	return true, err
}

// TestExploreRedrivesDuringCalls redrives a dead letter that did not block its key: before, during and
// after a call of that key which it would undo, with each fault at each I/O. Neither waits for the other
// forever.
// Interleaving 8.
func TestExploreRedrivesDuringCalls(t *testing.T) {
	for rounds := range 4 {
		t.Run(fmt.Sprint(rounds, " rounds"), func(t *testing.T) {
			sagatest.Explore(t, buildRedriving(inMemory, rounds),
				&sagatest.Options{Rest: 60 * time.Second, Sample: sampled(100), Failures: 3})
		})
	}
}
