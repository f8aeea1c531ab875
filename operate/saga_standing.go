package operate

import (
	"context"

	"github.com/skald-go/skald/operate/internal/sagas"
	"github.com/skald-go/skald/store"
)

// Styles of a saga.
const (
	Choreographed = sagas.Choreographed // a tracker follows it
	Orchestrated  = sagas.Orchestrated  // an engine runs it
)

// A SagaStanding is how one saga stands, of either style: its names in JSON are stable.
type SagaStanding = sagas.SagaStanding

// Outcomes of a StandingStep.
const (
	StepRunning  = sagas.StepRunning // it is at work, or waits for an answer
	StepNext     = sagas.StepNext    // its turn has come, and no build runs that takes it
	StepDone     = sagas.StepDone    // it took effect, or: the event came
	StepFailed   = sagas.StepFailed  // it ended without an effect, or: the saga failed by it
	StepSkipped  = sagas.StepSkipped // it counts as passed
	StepDropped  = sagas.StepDropped // the saga turned back before it took effect
	StepUndoing  = sagas.StepUndoing // its undo is at work
	StepIsUndone = sagas.StepIsUndone
)

// A StandingStep is a step of an engine's saga, or what came of one kind of event.
type StandingStep = sagas.StandingStep

// What a Wait waits for.
const (
	WaitEvent  = sagas.WaitEvent
	WaitReply  = sagas.WaitReply // to a command, or to the undo of one
	WaitSignal = sagas.WaitSignal
	WaitTime   = sagas.WaitTime
	WaitChild  = sagas.WaitChild // a saga that is a step of this one
	// entities that other sagas hold, or stand in line for
	WaitEntities = sagas.WaitEntities
)

// A Wait is something that has to come.
type Wait = sagas.Wait

// A Retrying is the step that fails again and again, or is stuck by that. The same of a message is a Holder.
type Retrying = sagas.Retrying

// An Asked is a step of which an operator asked for the undo.
type Asked = sagas.Asked

// SagaStandings tells how the sagas of a key stand, of both styles. At is as for Holders. None is no error.
func SagaStandings(ctx context.Context, db store.Lister, key, at string) ([]SagaStanding, error) {
	return sagas.SagaStandings(ctx, db, key, at)
}

// TrackedSagas lists choreographed sagas as trackers keep them, by key and flow.
func TrackedSagas(ctx context.Context, db store.Lister, q store.TrackedQuery) ([]SagaStanding, error) {
	return sagas.TrackedSagas(ctx, db, q)
}
