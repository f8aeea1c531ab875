// This file reads the acts of a run from the audit.

package operate

import (
	"context"
	"iter"
	"strings"

	"github.com/skald-go/skald/store"
)

// What is noted of a run beside its changes, after the verb.
const (
	runBegun   = " begun: "
	runStopped = " stopped: "
	runEnded   = " ended: "
)

// noteOf is what an audit notes of its run: one of the words above, and the text after it; "": it changed
// something, which it names, and whose name may hold any word.
func noteOf(a *store.Audit) (verb, what, text string) {
	if a.Run == "" || a.Identity != (store.Identity{}) {
		return "", "", ""
	}
	at := len(a.Action)
	for _, word := range []string{runBegun, runStopped,
		runEnded} { // what comes first: a text may hold the others
		if i := strings.Index(a.Action, word); i >= 0 && i < at {
			at, what = i, word
		}
	}
	if what == "" {
		return "", "", ""
	}
	return a.Action[:at], what, a.Action[at+len(what):]
}

// A RunReader reads what operators did: see store.Store.
type RunReader interface {
	Audits(ctx context.Context, q store.AuditQuery) ([]store.Audit, error)
}

// actsPage is how many acts are read at once.
const actsPage = 1000

// runActs goes through what a run noted after a number, page by page.
func runActs(ctx context.Context, db RunReader, run string, after int64) iter.Seq2[store.Audit, error] {
	return func(yield func(store.Audit, error) bool) {
		for {
			list, err := db.Audits(ctx, store.AuditQuery{Run: run, After: after, Limit: actsPage})
			if err != nil {
				yield(store.Audit{}, err)
				return
			}
			for _, a := range list {
				if after = a.Number; !yield(a, nil) {
					return
				}
			}
			if len(list) < actsPage {
				return
			}
		}
	}
}

// A runTarget is which message of which consumer an act was about.
type runTarget struct {
	Consumer string
	store.Identity
}
