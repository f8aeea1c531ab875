package view

import (
	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// runTitle returns the title of the verb of a run.
func runTitle(r *operate.Run) string {
	if verb := r.SagaVerbOf(); verb != "" {
		return page.Title(page.OfSaga + string(verb))
	}
	return page.Title(r.Verb)
}

// things returns the word for the objects of a run: messages or sagas.
func things(r *operate.RunRequest) string {
	if r.Sagas != nil || r.Flows != nil {
		return "sagas"
	}
	return "messages"
}
