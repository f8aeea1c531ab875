package operate

import (
	"context"
	"io"

	"github.com/skald-go/skald/operate/internal/sagas"
	"github.com/skald-go/skald/store"
)

// A Definition is one version of a saga's definition, as engines have noted it: its names in JSON are stable.
type Definition = sagas.Definition

// A DefinitionChange is one difference between two versions.
type DefinitionChange = sagas.DefinitionChange

// Definitions lists the definitions that engines have noted, by name, the newest first: one statement.
// Each is compared with the last of its name. Name "": of all.
func Definitions(ctx context.Context, db store.Lister, name string) ([]Definition, error) {
	return sagas.Definitions(ctx, db, name)
}

// A Saga is how an orchestrated saga stands: its names in JSON are stable.
type Saga = sagas.Saga

// SagaStatuses are the words for which way a saga goes.
func SagaStatuses() []string {
	return sagas.SagaStatuses()
}

// A SagaSelection chooses among orchestrated sagas. Zero fields choose all.
type SagaSelection = sagas.SagaSelection

// Sagas lists orchestrated sagas by name and key.
func Sagas(ctx context.Context, db store.Lister, s SagaSelection) (out []Saga, err error) {
	return sagas.Sagas(ctx, db, s)
}

// A SagaPage is some sagas, by name and key.
type SagaPage = sagas.SagaPage

// SagasAfter reads a page of the selected sagas, after one or from the first: one read of the store.
func SagasAfter(ctx context.Context, db store.Lister, s SagaSelection, after *store.SagaRef,
	most Peek) (page SagaPage, err error) {
	return sagas.SagasAfter(ctx, db, s, after, most)
}

// A SagaDetail is all that is known of a saga. Input and outputs may hold what is not everybody's to read.
type SagaDetail = sagas.SagaDetail

// A SagaRun is how one occurrence of a step stands.
type SagaRun = sagas.SagaRun

// A SagaRead is a saga as it was when it was read.
type SagaRead = sagas.SagaRead

// ReadSaga reads one saga, and how its children stand that it waits for. The name may be empty where no other
// definition has a saga of the key.
func ReadSaga(ctx context.Context, db store.Lister, name, key string) (r SagaRead, err error) {
	return sagas.ReadSaga(ctx, db, name, key)
}

// Forms are those in which SagaRead.Draw draws.
func Forms() []string {
	return sagas.Forms()
}

// A SagaCheck tells what becomes of the sagas that run when a build with other definitions takes over.
type SagaCheck = sagas.SagaCheck

// CheckSagas compares the sagas that run with the definitions that saga.Write has written of the next build.
func CheckSagas(ctx context.Context, db store.Lister, definitions io.Reader) (out []SagaCheck, err error) {
	return sagas.CheckSagas(ctx, db, definitions)
}
