// This file keeps the definitions of this build. It stores them in the database, and reads those that other
// builds stored.

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

// db is the part of the database that a book uses.
type db interface {
	Check(ctx context.Context, as store.Role) error
	List(ctx context.Context, l store.List) (store.Listed, error)
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
}

// book has the definitions of this build, and those of other builds that were read so far.
type book struct {
	db      db
	log     *slog.Logger
	timeout time.Duration // of one database call
	byName  map[string]*Definition
	byHash  map[string]*Definition
	checked bool // tables and rights were checked since the last error; for the caller of Note

	mu      sync.Mutex
	others  map[string]plan.Graph // definitions of other builds, by hash
	number  map[string]int64      // by hash; a later definition of a name has a larger number
	claimed []string              // hashes of the sagas that this build can run
}

// newDefinitions returns a book of this build's definitions, which must have distinct names.
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

// Named returns this build's definition with a name, or nil.
func (b *book) Named(name string) *Definition { return b.byName[name] }

// Has reports whether d is a definition of this build.
func (b *book) Has(d *Definition) bool { return b.byHash[d.Hash] == d }

// Claimed returns the hashes of the definitions whose sagas this build can run.
func (b *book) Claimed() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.claimed)
}

// Plan returns the plan of the definition with a hash, from this build or from the database. If no engine has
// stored the definition, Plan returns a skald.VersionError. It leaves the message to a build that has the
// definition.
func (b *book) Plan(ctx context.Context, name, hash string) (*plan.Plan, error) {
	if d, ok := b.byHash[hash]; ok {
		return d.Plan, nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout/3) // short, because a caller's transaction may be open
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
	return nil, skald.UnknownVersion(fmt.Errorf("the saga %s has the definition %s, which no engine has stored: "+
		"run an engine of the build that has it", name, hash))
}

// Before returns the definition with which a saga was begun, or an empty graph if that definition is d. It
// returns an error if d cannot continue the saga, because the saga's definition is later than d.
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

// Note stores the definitions of this build in the database. Then it reads those of other builds, and
// computes which of their sagas this build can run.
func (b *book) Note(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	if !b.checked {
		if err := b.db.Check(ctx, store.App); err != nil {
			return err
		}
	}
	b.checked = false // if Note fails, the next call checks again, because tables or rights may have changed
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
		return fmt.Errorf("store definitions: %w", err)
	}
	if err := b.readOthers(ctx); err != nil {
		return err
	}
	b.checked = true
	return nil
}

// readOthers reads the definitions of other builds, and computes claimed.
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
		case err == nil && canRun(d, one.Hash, f.Definitions[0].Graph):
			b.claimed = append(b.claimed, one.Hash)
		case err != nil && !known:
			b.log.InfoContext(ctx, "saga: sagas of a later definition are left to builds that have it",
				"saga", one.Name, "hash", one.Hash, "why", err)
		}
	}
	return nil
}

// backward returns an error if d cannot run sagas of another definition of the same name. The other
// definition must be earlier than d, or a mapping of d must name it.
func (b *book) backward(d *Definition, hash string) error {
	own, other := b.number[d.Hash], b.number[hash]
	if own > other && other > 0 || mapping(d, hash).From == hash {
		return nil
	}
	return fmt.Errorf("the definition %s is not earlier than %s, the definition of this build: run a build that "+
		"has it; after a permanent rollback, give this build a saga.Mapping with From %s", hash, d.Hash, hash)
}

// canRun reports whether d can run sagas of an older definition: all of them, or all that have not begun
// certain steps.
func canRun(d *Definition, hash string, older plan.Graph) bool {
	return !slices.ContainsFunc(plan.Compare(older, d.Plan.Graph, mapping(d, hash)),
		func(c plan.Change) bool {
			return c.Class == plan.Refuses && c.Begun == ""
		})
}

// mapping returns d's mapping from the definition with this hash, or an empty mapping.
func mapping(d *Definition, hash string) plan.Mapping {
	for _, m := range d.Mappings {
		if m.From == hash {
			return m
		}
	}
	return plan.Mapping{}
}
