package exec

import (
	"maps"
	"slices"

	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// A registry is what is run for which messages. Nothing changes it after the first job.
type registry[TTx any] struct {
	handlers map[store.Kind]Handler[TTx]
	many     map[store.Kind]*BatchHandler[TTx] // for several messages at once; in handlers, for one
	steps    map[store.Kind]Course
	calls    map[store.Kind]Outside[TTx]
	beside   Known[TTx]  // nil: nothing
	took     Lookup[TTx] // nil: nothing
}

func newRegistry[TTx any]() registry[TTx] {
	return registry[TTx]{
		handlers: map[store.Kind]Handler[TTx]{},
		many:     map[store.Kind]*BatchHandler[TTx]{},
		steps:    map[store.Kind]Course{},
		calls:    map[store.Kind]Outside[TTx]{},
	}
}

// Handle has messages of k run by h, and by nothing else that was said before.
func (g *registry[TTx]) Handle(k store.Kind, h Handler[TTx]) {
	g.handlers[k] = h
	delete(g.many, k)
	delete(g.steps, k)
	delete(g.calls, k)
}

// HandleBatch has several messages of k, which has a handler, run by h at once. Those whose h is the same
// may be of several kinds.
func (g *registry[TTx]) HandleBatch(k store.Kind, h *BatchHandler[TTx]) { g.many[k] = h }

// Course says what messages of k, which has a handler, are to a saga.
func (g *registry[TTx]) Course(k store.Kind, c Course) { g.steps[k] = c }

// Call says which call the handler of k intends.
func (g *registry[TTx]) Call(k store.Kind, c Outside[TTx]) { g.calls[k] = c }

// Beside has known asked of each message in its transaction.
func (g *registry[TTx]) Beside(known Known[TTx]) { g.beside = known }

// LegacySteps has took asked of steps that nobody here has taken.
func (g *registry[TTx]) LegacySteps(took Lookup[TTx]) { g.took = took }

// Handles tells whether there is a handler for k.
func (g *registry[TTx]) Handles(k store.Kind) bool { return g.handlers[k] != nil }

// Calls tells whether the handler of k makes a call.
func (g *registry[TTx]) Calls(k store.Kind) bool {
	_, some := g.calls[k]
	return some
}

// Kinds are those that there are handlers for, in their order.
func (g *registry[TTx]) Kinds() []store.Kind {
	return slices.SortedFunc(maps.Keys(g.handlers), partition.CompareKinds)
}

// AsksBeside tells whether a table of the user's is asked of each message.
func (g *registry[TTx]) AsksBeside() bool { return g.beside != nil }
