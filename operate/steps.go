package operate

import (
	"context"

	"github.com/skald-go/skald/operate/internal/sagas"
	"github.com/skald-go/skald/store"
)

// A SagaStep is how a step of a saga stands: its names in JSON are stable. Result and Outcome are base64
// there.
type SagaStep = sagas.SagaStep

// StepStates are the words for how a step stands.
func StepStates() []string {
	return sagas.StepStates()
}

// A StepSelection chooses among steps. Zero fields choose all.
type StepSelection = sagas.StepSelection

// Steps lists how steps of sagas stand, by consumer, saga, step and occurrence.
func Steps(ctx context.Context, db store.Lister, s StepSelection) ([]SagaStep, error) {
	return sagas.Steps(ctx, db, s)
}
