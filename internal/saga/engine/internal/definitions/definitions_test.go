package definitions

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/body"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// A shelf has what builds have noted.
type shelf struct {
	noted []store.SagaDefinition
	reads int
}

func (s *shelf) Check(context.Context, store.Role) error { return nil }

func (s *shelf) List(context.Context, store.List) (store.Listed, error) {
	s.reads++
	return store.Listed{Definitions: s.noted}, nil
}

func (s *shelf) NoteSagaDefinitions(_ context.Context, ds []store.SagaDefinition) error {
	s.noted = append(s.noted, ds...)
	return nil
}

func defined(steps ...string) *body.Definition {
	g := plan.Graph{Name: "order"}
	for _, name := range steps {
		g.Steps = append(g.Steps, plan.Step{Name: name, Kind: plan.Do, NoEffect: true})
	}
	return body.Made(body.Definition{Name: "order", Hash: g.Hash(), Plan: plan.New(g)}, nil)
}

func TestABookKnowsWhatOtherBuildsHaveNoted(t *testing.T) {
	db := &shelf{}
	old, now := defined("pay"), defined("pay", "ship")
	if err := New(db, slog.New(slog.DiscardHandler), time.Second,
		[]*body.Definition{old}).Note(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := New(db, slog.New(slog.DiscardHandler), time.Second, []*body.Definition{now})
	if err := b.Note(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.Claimed(); !slices.Contains(got, old.Hash) || !slices.Contains(got, now.Hash) {
		t.Errorf("it takes on sagas of %v", got)
	}
	if !b.Has(now) || b.Has(old) || b.Named("order") != now || b.Named("other") != nil {
		t.Error("it takes another build's definition for its own")
	}
	reads := db.reads
	older, err := b.Before(t.Context(), store.Saga{Name: "order", Hash: old.Hash}, now)
	if err != nil || len(older.Steps) != 1 || db.reads != reads {
		t.Errorf("before that: %+v, %v", older, err)
	}
	same := store.Saga{Name: "order", Hash: now.Hash}
	if older, err := b.Before(t.Context(), same, now); err != nil || len(older.Steps) != 0 {
		t.Errorf("a saga of the same definition was another one's before: %+v, %v", older, err)
	}
	if _, err := b.Plan(t.Context(), "order", "unheard of"); err == nil || db.reads == reads {
		t.Errorf("a definition that nobody has noted: %v, without a look", err)
	}
}
