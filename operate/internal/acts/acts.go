// Package acts reads from the audit what a run noted: that it began, each change under its name, and how it
// ended.
package acts

import (
	"context"
	"iter"
	"strings"

	"github.com/skald-go/skald/store"
)

// What is noted of a run beside its changes, after the verb.
const (
	Begun   = " begun: "
	Stopped = " stopped: "
	Ended   = " ended: "
)

// Note is what an audit notes of its run: one of the words above, and the text after it; "": it changed
// something, which it names, and whose name may hold any word.
func Note(a *store.Audit) (verb, what, text string) {
	if a.Run == "" || a.Identity != (store.Identity{}) {
		return "", "", ""
	}
	at := len(a.Action)
	for _, word := range []string{Begun, Stopped, Ended} { // what comes first: a text may hold the others
		if i := strings.Index(a.Action, word); i >= 0 && i < at {
			at, what = i, word
		}
	}
	if what == "" {
		return "", "", ""
	}
	return a.Action[:at], what, a.Action[at+len(what):]
}

// A Reader reads what operators did: see store.Store.
type Reader interface {
	Audits(ctx context.Context, q store.AuditQuery) ([]store.Audit, error)
}

// Page is how many acts are read at once.
const Page = 1000

// Of goes through what a run noted after a number, page by page.
func Of(ctx context.Context, db Reader, run string, after int64) iter.Seq2[store.Audit, error] {
	return func(yield func(store.Audit, error) bool) {
		for {
			list, err := db.Audits(ctx, store.AuditQuery{Run: run, After: after, Limit: Page})
			if err != nil {
				yield(store.Audit{}, err)
				return
			}
			for _, a := range list {
				if after = a.Number; !yield(a, nil) {
					return
				}
			}
			if len(list) < Page {
				return
			}
		}
	}
}

// A Target is which message of which consumer an act was about.
type Target struct {
	Consumer string
	store.Identity
}
