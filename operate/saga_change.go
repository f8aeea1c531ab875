package operate

import (
	"context"

	"github.com/skald-go/skald/operate/internal/sagas"
)

// A SagaVerb is what an operator can do with orchestrated sagas.
type SagaVerb = sagas.SagaVerb

// Verbs.
const (
	// a step that waits or is stuck is tried now, with all its attempts; without Step, all that are stuck
	RetrySaga    = sagas.RetrySaga
	CompleteSaga = sagas.CompleteSaga // a step counts as done, with Data as its output
	SkipSaga     = sagas.SkipSaga     // a step counts as passed, or its undo as done
	CancelSaga   = sagas.CancelSaga   // it turns back
	PauseSaga    = sagas.PauseSaga    // nothing is begun any more
	ResumeSaga   = sagas.ResumeSaga
	SignalSaga   = sagas.SignalSaga // Signal comes, with Data
)

// SagaVerbs are all of them.
func SagaVerbs() []SagaVerb {
	return sagas.SagaVerbs()
}

// A SagaChange is a verb with what belongs to it.
type SagaChange = sagas.SagaChange

// A SagaKeeper is what ChangeSagas asks of a store.
type SagaKeeper = sagas.SagaKeeper

// A SagaReport tells also why sagas were left as they are.
type SagaReport = sagas.SagaReport

// A LeftSaga was selected, and not changed.
type LeftSaga = sagas.LeftSaga

// ChangeSagas does c to each selected saga, each in a transaction with its audit, under the guard of its
// version: what the engine writes at the same time comes before it or after it. One that a step holds, or
// that the store refuses, is left, and the others are changed. Those that have ended are not selected, unless
// a key, an id or a status says so. A key without a definition or an id means one saga: it is a UsageError
// where sagas of several definitions have it. With a *PartlyError the report is valid, too.
func ChangeSagas(ctx context.Context, db SagaKeeper, s SagaSelection, c SagaChange,
	o Order) (r SagaReport, err error) {
	return sagas.ChangeSagas(ctx, db, s, c, o)
}
