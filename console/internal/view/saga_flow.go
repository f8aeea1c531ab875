package view

import (
	"context"
	"strings"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// flowsPage lists choreographed sagas that trackers have stored.
type flowsPage struct{ listed[operate.SagaProgress] }

// Flows is the page of choreographed sagas.
func Flows(q *page.Request) (page.View, error) {
	if err := q.Word("state"); err != nil {
		return nil, err
	}
	what := store.TrackedQuery{Flow: q.Arg("flow"), Key: q.Arg("key"), State: q.Arg("state"),
		Overdue: q.Flag("overdue"), Limit: page.Rows + 1}
	list, err := listOf(q, func(ctx context.Context, s *page.Source) ([]operate.SagaProgress, error) {
		return operate.TrackedSagas(ctx, s.DB, what)
	})
	return &flowsPage{list}, err
}

func (*flowsPage) Heading() string { return "Choreographed sagas" }

func (v *flowsPage) HTML(p *page.Page) {
	p.Away(v.Away)
	p.Put("<p class=\"verbs\">")
	p.Link("Overdue", "/flows", "overdue", "1")
	for _, state := range operate.SagaStatuses() {
		p.Put(" ")
		p.Link(state, "/flows", "state", state)
	}
	p.Put("</p>\n")
	p.FilterForm("/flows", "flow", "key", "state", "overdue")
	v.tables(p, "by key", []string{"key", "flow", "state", "waits for", "since", "due", "changed"},
		v.verbs(p), func(_ string, s *operate.SagaProgress) { flowLine(p, s) })
}

// verbs writes the verbs for all sagas that match the filter.
func (v *flowsPage) verbs(p *page.Page) func(*listedPart[operate.SagaProgress]) {
	if selectFlows(p.Request) == (operate.FlowSelection{}) || p.Arg("key") != "" {
		return nil
	}
	return func(part *listedPart[operate.SagaProgress]) {
		if part.at.Compensate == nil {
			return
		}
		p.Put("<p class=\"verbs\">")
		manyButton(p, "compensate", part.Source, "flow", "state", "overdue")
		p.Put("</p>\n")
	}
}

func flowLine(p *page.Page, s *operate.SagaProgress) {
	p.Put("<tr><td>")
	p.Link(s.Key, "/story", "q", s.Key)
	p.Put("</td><td>%s</td><td>%s", s.Name, s.State)
	if s.Overdue {
		p.Put(" <b class=\"late\">overdue</b>")
	}
	if len(s.Drift) > 0 {
		p.Put(" <b class=\"late\">drift</b>")
	}
	p.Put("</td><td>%s</td><td>", waitsFor(s))
	var since time.Time
	if len(s.Waiting) > 0 && s.Waiting[0].Since != nil {
		since = *s.Waiting[0].Since
	}
	p.When(since)
	p.Put("</td><td>")
	if s.Due != nil {
		p.When(*s.Due)
	}
	p.Put("</td><td>")
	p.When(s.Changed)
	p.Put("</td></tr>\n")
}

// waitsFor lists the events that a saga waits for.
func waitsFor(s *operate.SagaProgress) string {
	all := make([]string, len(s.Waiting))
	for i, w := range s.Waiting {
		all[i] = strings.Join(w.For, " or ")
	}
	return strings.Join(all, ", and ")
}
