package engine

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// shelf stores the definitions of builds.
type shelf struct {
	noted []store.SagaDefinition
	reads int
}

func (s *shelf) Check(context.Context, store.Role) error { return nil }

func (s *shelf) List(context.Context, store.List) (store.Listed, error) {
	s.reads++
	return store.Listed{Definitions: s.noted}, nil
}

func (s *shelf) Apply(_ context.Context, es ...store.Effect) ([]bool, error) {
	for _, d := range es[0].Definitions {
		same := func(was store.SagaDefinition) bool { return was.Hash == d.Hash }
		if !slices.ContainsFunc(s.noted, same) {
			d.Number = int64(len(s.noted) + 1)
			s.noted = append(s.noted, d)
		}
	}
	return []bool{true}, nil
}

func defined(steps ...string) *Definition {
	g := plan.Graph{Name: "order"}
	for _, name := range steps {
		g.Steps = append(g.Steps, plan.Step{Name: name, Kind: plan.Do, NoEffect: true})
	}
	return NewDefinition(Definition{Name: "order", Hash: g.Hash(), Plan: plan.New(g)}, nil)
}

// bookOf returns a book that has stored its definition.
func bookOf(t *testing.T, db *shelf, d *Definition) *book {
	b := newDefinitions(db, slog.New(slog.DiscardHandler), time.Second, []*Definition{d})
	if err := b.Note(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBuildsRunOnlyEarlierDefinitions: a build runs sagas of definitions that were stored before its own,
// and of others only with a mapping. A build that is older, or was stored at the same time, would omit
// steps.
func TestBuildsRunOnlyEarlierDefinitions(t *testing.T) {
	old, now := defined("pay"), defined("check", "pay", "ship")
	back := *old
	back.Mappings = []plan.Mapping{{From: now.Hash}}
	saga := store.Saga{Name: "order", Hash: now.Hash}
	for name, of := range map[string]struct {
		d       *Definition
		numbers []int64 // of old and now, if they differ from the order of storing
		takes   bool
	}{
		"an older build":              {d: old},
		"a build of the same time":    {d: old, numbers: []int64{1, 1}},
		"a build that is later":       {d: old, numbers: []int64{2, 1}, takes: true},
		"a build that maps them back": {d: &back, takes: true},
	} {
		t.Run(name, func(t *testing.T) {
			db := &shelf{}
			bookOf(t, db, old)
			bookOf(t, db, now)
			for i, n := range of.numbers {
				db.noted[i].Number = n
			}
			b := bookOf(t, db, of.d)
			if got := slices.Contains(b.Claimed(), now.Hash); got != of.takes {
				t.Errorf("it claims them: %t, want %t", got, of.takes)
			}
			if _, err := b.Before(t.Context(), saga, of.d); (err == nil) != of.takes {
				t.Errorf("a saga in progress is accepted: %v, want %t", err, of.takes)
			}
			if p, err := b.Plan(t.Context(), "order", now.Hash); err != nil || len(p.Graph.Steps) != 3 {
				t.Errorf("a reply or a verb finds no plan: %v", err)
			}
		})
	}
}

func TestBookReadsDefinitionsOfOtherBuilds(t *testing.T) {
	db := &shelf{}
	old, now := defined("pay"), defined("pay", "ship")
	bookOf(t, db, old)
	b := bookOf(t, db, now)
	if got := b.Claimed(); !slices.Contains(got, old.Hash) || !slices.Contains(got, now.Hash) {
		t.Errorf("it can run sagas of %v", got)
	}
	if !b.Has(now) || b.Has(old) || b.Named("order") != now || b.Named("other") != nil {
		t.Error("another build's definition counts as its own")
	}
	reads := db.reads
	older, err := b.Before(t.Context(), store.Saga{Name: "order", Hash: old.Hash}, now)
	if err != nil || len(older.Steps) != 1 || db.reads != reads {
		t.Errorf("before that: %+v, %v", older, err)
	}
	same := store.Saga{Name: "order", Hash: now.Hash}
	if older, err := b.Before(t.Context(), same, now); err != nil || len(older.Steps) != 0 {
		t.Errorf("a saga of the same definition has an older one: %+v, %v", older, err)
	}
	if _, err := b.Plan(t.Context(), "order", "unhandled of"); err == nil || db.reads == reads {
		t.Errorf("an unknown definition: %v, want a read and an error", err)
	}
}
