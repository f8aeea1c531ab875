package view

import (
	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// runTitle is what the verb of a run is called.
func runTitle(r *operate.Run) string {
	if verb := r.SagaVerbOf(); verb != "" {
		return page.Title(page.OfSaga + string(verb))
	}
	return page.Title(r.Verb)
}

// things are what a run is about.
func things(r *operate.RunRequest) string {
	if r.Sagas != nil || r.Flows != nil {
		return "sagas"
	}
	return "messages"
}
