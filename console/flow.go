package console

import (
	"context"
	"strings"
	"time"

	"github.com/skald-go/skald/console/internal/source"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// A flowsPage is choreographed sagas, as trackers keep them.
type flowsPage struct{ listed[operate.SagaStanding] }

func flowList(q *request) (view, error) {
	if err := q.word("state"); err != nil {
		return nil, err
	}
	what := store.TrackedQuery{Flow: q.Arg("flow"), Key: q.Arg("key"), State: q.Arg("state"), Overdue: q.Flag("overdue"), Limit: pageOf + 1}
	list, err := listOf(q, func(ctx context.Context, s *source.Source) ([]operate.SagaStanding, error) {
		return operate.TrackedSagas(ctx, s.DB, what)
	})
	return &flowsPage{list}, err
}

func (*flowsPage) Heading() string { return "Choreographed sagas" }

func (v *flowsPage) HTML(p *page) {
	p.away(v.Away)
	p.put("<p class=\"verbs\">")
	p.link("Overdue", "/flows", "overdue", "1")
	for _, state := range operate.SagaStatuses() {
		p.put(" ")
		p.link(state, "/flows", "state", state)
	}
	p.put("</p>\n")
	p.filterForm("/flows", "flow", "key", "state", "overdue")
	v.tables(p, "by key", []string{"key", "flow", "state", "waits for", "since", "due", "changed"}, v.verbs(p), func(_ string, s *operate.SagaStanding) { flowLine(p, s) })
}

// verbs of all that the filter chooses.
func (v *flowsPage) verbs(p *page) func(*listedPart[operate.SagaStanding]) {
	if flowsOf(p.q) == (operate.FlowSelection{}) || p.arg("key") != "" {
		return nil
	}
	return func(part *listedPart[operate.SagaStanding]) {
		if part.at.Compensate == nil {
			return
		}
		p.put("<p class=\"verbs\">")
		manyButton(p, "compensate", part.Source, "flow", "state", "overdue")
		p.put("</p>\n")
	}
}

func flowLine(p *page, s *operate.SagaStanding) {
	p.put("<tr><td>")
	p.link(s.Key, "/story", "q", s.Key)
	p.put("</td><td>%s</td><td>%s", s.Name, s.State)
	if s.Overdue {
		p.put(" <b class=\"late\">overdue</b>")
	}
	if len(s.Drift) > 0 {
		p.put(" <b class=\"late\">drift</b>")
	}
	p.put("</td><td>%s</td><td>", waitsFor(s))
	var since time.Time
	if len(s.Waiting) > 0 && s.Waiting[0].Since != nil {
		since = *s.Waiting[0].Since
	}
	p.when(since)
	p.put("</td><td>")
	if s.Due != nil {
		p.when(*s.Due)
	}
	p.put("</td><td>")
	p.when(s.Changed)
	p.put("</td></tr>\n")
}

func waitsFor(s *operate.SagaStanding) string {
	all := make([]string, len(s.Waiting))
	for i, w := range s.Waiting {
		all[i] = strings.Join(w.For, " or ")
	}
	return strings.Join(all, ", and ")
}
