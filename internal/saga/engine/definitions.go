// This file knows the definitions of sagas: those of this build, and those that other builds have
// noted in the database.

package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// A db is where definitions are noted.
type db interface {
	Check(ctx context.Context, as store.Role) error
	List(ctx context.Context, l store.List) (store.Listed, error)
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
}

// A book has the definitions of this build, and the plans of other builds' as far as they are known.
type book struct {
	db      db
	log     *slog.Logger
	timeout time.Duration // of one talk with the database
	byName  map[string]*Definition
	byHash  map[string]*Definition
	checked bool // the tables and rights, since the last error. Of the goroutine that notes

	mu      sync.Mutex
	others  map[string]plan.Graph // by hash: of other builds
	number  map[string]int64      // by hash: in which order the first engine noted each of its name
	claimed []string              // hashes of sagas that this build can take on
}

// newDefinitions is a book of this build's definitions, one of each name.
func newDefinitions(db db, log *slog.Logger, timeout time.Duration, defs []*Definition) *book {
	b := &book{db: db, log: log, timeout: timeout, byName: map[string]*Definition{},
		byHash: map[string]*Definition{}, others: map[string]plan.Graph{}, number: map[string]int64{}}
	for _, d := range defs {
		b.byName[d.Name], b.byHash[d.Hash] = d, d
		b.claimed = append(b.claimed, d.Hash)
	}
	return b
}

// All yields this build's definitions.
func (b *book) All(yield func(*Definition) bool) {
	for _, d := range b.byName {
		if !yield(d) {
			return
		}
	}
}

// Named is this build's definition of a name; nil: it has none.
func (b *book) Named(name string) *Definition { return b.byName[name] }

// Has tells whether d is one of this build's.
func (b *book) Has(d *Definition) bool { return b.byHash[d.Hash] == d }

// Claimed are the hashes of the definitions whose sagas this build can take on.
func (b *book) Claimed() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.claimed)
}

// Plan is the plan of a hash: of this build, or of another one that noted it. A message about a saga of one
// that nobody has noted yet is left to the build that has it.
func (b *book) Plan(ctx context.Context, name, hash string) (*plan.Plan, error) {
	if d, ok := b.byHash[hash]; ok {
		return d.Plan, nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout/3) // a caller's transaction may be open meanwhile
	defer cancel()
	for range 2 {
		b.mu.Lock()
		g, ok := b.others[hash]
		b.mu.Unlock()
		if ok {
			return plan.New(g), nil
		}
		if err := b.readOthers(ctx); err != nil {
			return nil, err
		}
	}
	return nil, skald.UnknownVersion(fmt.Errorf("the saga %s has the definition %s, which no engine has noted: "+
		"run an engine of the build that has it", name, hash))
}

// Before is the graph of what a saga was begun by, where that is not d; else an empty one. A saga of a later
// definition than d is refused.
func (b *book) Before(ctx context.Context, s store.Saga, d *Definition) (older plan.Graph, err error) {
	if s.Hash == d.Hash {
		return older, nil
	}
	p, err := b.Plan(ctx, s.Name, s.Hash)
	if err != nil {
		return older, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return p.Graph, b.backward(d, s.Hash)
}

// Note stores the definitions of this build, and looks which of other builds' it can take on.
func (b *book) Note(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	if !b.checked {
		if err := b.db.Check(ctx, store.App); err != nil {
			return err
		}
	}
	b.checked = false // after an error it checks again: tables or rights may have changed
	ds := make([]store.SagaDefinition, 0, len(b.byName))
	for _, d := range b.byName {
		var text strings.Builder
		if err := plan.Write(&text, plan.Written{Hash: d.Hash, Graph: d.Plan.Graph,
			Mappings: d.Mappings}); err != nil {
			return err
		}
		ds = append(ds, store.SagaDefinition{Name: d.Name, Hash: d.Hash, Written: text.String()})
	}
	slices.SortFunc(ds, func(a, b store.SagaDefinition) int { return strings.Compare(a.Name, b.Name) })
	if _, err := b.db.Apply(ctx, store.Effect{Definitions: ds}); err != nil {
		return fmt.Errorf("note definitions: %w", err)
	}
	if err := b.readOthers(ctx); err != nil {
		return err
	}
	b.checked = true
	return nil
}

// readOthers reads the definitions that other builds have noted.
func (b *book) readOthers(ctx context.Context) error {
	l, err := b.db.List(ctx, store.List{Definitions: true})
	if err != nil {
		return fmt.Errorf("read definitions: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claimed = b.claimed[:0]
	for hash := range b.byHash {
		b.claimed = append(b.claimed, hash)
	}
	clear(b.number)
	for _, one := range l.Definitions {
		b.number[one.Hash] = one.Number
	}
	for _, one := range l.Definitions {
		if _, own := b.byHash[one.Hash]; own {
			continue
		}
		f, err := plan.Read(strings.NewReader(one.Written))
		if err != nil || len(f.Definitions) != 1 {
			b.log.WarnContext(ctx, "saga: a definition cannot be read", "saga", one.Name,
				"hash", one.Hash, "error", err)
			continue
		}
		_, known := b.others[one.Hash]
		b.others[one.Hash] = f.Definitions[0].Graph
		d := b.byName[one.Name]
		if d == nil {
			continue
		}
		switch err := b.backward(d, one.Hash); {
		case err == nil && takesOn(d, one.Hash, f.Definitions[0].Graph):
			b.claimed = append(b.claimed, one.Hash)
		case err != nil && !known:
			b.log.InfoContext(ctx, "saga: sagas of a later definition are left to builds that have it",
				"saga", one.Name, "hash", one.Hash, "why", err)
		}
	}
	return nil
}

// backward tells why sagas of another definition of d's name are not taken on by d: it is no earlier one, and
// no mapping of d says that its sagas are to go back. Nil: they may be.
func (b *book) backward(d *Definition, hash string) error {
	own, other := b.number[d.Hash], b.number[hash]
	if own > other && other > 0 || mapping(d, hash).From == hash {
		return nil
	}
	return fmt.Errorf("the definition %s is not an earlier one than %s, which this build has: run a build that "+
		"has it; after a rollback for good, give this build a saga.Mapping whose From is %s", hash, d.Hash, hash)
}

// takesOn tells whether d can take on sagas of an older definition, but for some of them.
func takesOn(d *Definition, hash string, older plan.Graph) bool {
	return !slices.ContainsFunc(plan.Compare(older, d.Plan.Graph, mapping(d, hash)),
		func(c plan.Change) bool {
			return c.Class == plan.Refuses && c.Begun == ""
		})
}

// mapping is how d takes on sagas of the definition of a hash.
func mapping(d *Definition, from string) plan.Mapping {
	for _, m := range d.Mappings {
		if m.From == from {
			return m
		}
	}
	return plan.Mapping{}
}
