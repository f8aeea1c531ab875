package operate

import (
	"context"

	"github.com/skald-go/skald/operate/internal/sagas"
)

// A Compensator is what Compensate needs of a database: see store.Driver.
type Compensator[TTx any] = sagas.Compensator[TTx]

// A Wish says which saga is to be undone.
type Wish = sagas.Wish

// CompensateReport tells what was asked for; in a dry run, would be.
type CompensateReport = sagas.CompensateReport

// Compensate has a choreographed saga undone. It publishes, through the outbox of the tracker's database, the
// events by which the flow asks for the undo of each step that took effect. The row of the saga notes that in
// the same commit, so a repeat asks for nothing twice. Who takes a step undoes it by inbox.Compensate: what
// the saga itself has undone meanwhile is not undone again. If the flow declares no undo of a step that took
// effect, that step is named, and nothing is published.
func Compensate[TTx any](ctx context.Context, db Compensator[TTx], w Wish,
	o Order) (r CompensateReport, err error) {
	return sagas.Compensate(ctx, db, w, o)
}

// A FlowSelection chooses among choreographed sagas. Zero fields choose all.
type FlowSelection = sagas.FlowSelection

// CompensateAll has each selected choreographed saga undone, as Compensate does it, each in a transaction of
// its own. A repeat asks for nothing twice. Left are those of which nothing is left to undo, and those whose
// flow says that they cannot be undone. With a *PartlyError the report is valid, too.
func CompensateAll[TTx any](ctx context.Context, db Compensator[TTx], s FlowSelection,
	o Order) (r SagaReport, err error) {
	return sagas.CompensateAll(ctx, db, s, o)
}
