// This file reads the audits of a run.

package operate

import (
	"context"
	"iter"
	"strings"

	"github.com/skald-go/skald/store"
)

// Words that follow the verb in the audits of the begin, a stop and the end of a run. The audits of the run's
// changes have none of these words.
const (
	runBegun   = " begun: "
	runStopped = " stopped: "
	runEnded   = " ended: "
)

// noteOf splits the audit of a begin, a stop or an end into the verb, one of the words above, and the text
// after that word. All are empty for the audit of a change: it has an identity, and its text may contain any
// word.
func noteOf(a *store.Audit) (verb, what, text string) {
	if a.Run == "" || a.Identity != (store.Identity{}) {
		return "", "", ""
	}
	at := len(a.Action)
	for _, word := range []string{runBegun, runStopped,
		runEnded} { // the first word counts: the text may contain the others
		if i := strings.Index(a.Action, word); i >= 0 && i < at {
			at, what = i, word
		}
	}
	if what == "" {
		return "", "", ""
	}
	return a.Action[:at], what, a.Action[at+len(what):]
}

// RunReader reads audits: see store.Store.
type RunReader interface {
	Audits(ctx context.Context, q store.AuditQuery) ([]store.Audit, error)
}

// auditPage is the number of audits in one read.
const auditPage = 1000

// runAudits reads the audits of a run that come after the audit with this number, page by page.
func runAudits(ctx context.Context, db RunReader, run string, number int64) iter.Seq2[store.Audit, error] {
	return func(yield func(store.Audit, error) bool) {
		for {
			list, err := db.Audits(ctx, store.AuditQuery{Run: run, After: number, Limit: auditPage})
			if err != nil {
				yield(store.Audit{}, err)
				return
			}
			for _, a := range list {
				if number = a.Number; !yield(a, nil) {
					return
				}
			}
			if len(list) < auditPage {
				return
			}
		}
	}
}

// runTarget is the consumer and the identity of a message that a run changes.
type runTarget struct {
	Consumer string
	store.Identity
}
