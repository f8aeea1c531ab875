package view

import (
	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// runTitle returns the title of a run's verb.
func runTitle(r *operate.Run) string {
	if verb := r.SagaVerbOf(); verb != "" {
		return page.Title(page.OfSaga + string(verb))
	}
	return page.Title(r.Verb)
}

// things names the objects of a run.
func things(r *operate.RunRequest) string {
	if r.Sagas != nil || r.Flows != nil {
		return "sagas"
	}
	return "messages"
}
