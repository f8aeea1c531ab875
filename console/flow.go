package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// A flowsPage is choreographed sagas, as trackers keep them.
type flowsPage struct{ listed[operate.SagaStanding] }

func flowList(q *request) (view, error) {
	if err := q.word("state"); err != nil {
		return nil, err
	}
	what := store.TrackedQuery{Flow: q.arg("flow"), Key: q.arg("key"), State: q.arg("state"), Overdue: q.flag("overdue"), Limit: pageOf + 1}
	list, err := listOf(q, func(ctx context.Context, s *source) ([]operate.SagaStanding, error) {
		return operate.TrackedSagas(ctx, s.db, what)
	})
	return &flowsPage{list}, err
}

func (*flowsPage) title() string { return "Choreographed sagas" }

func (v *flowsPage) html(p *page) {
	p.away(v.Away)
	p.put("<p class=\"verbs\">")
	p.link("Overdue", "/flows", "overdue", "1")
	for _, state := range operate.SagaStatuses() {
		p.put(" ")
		p.link(state, "/flows", "state", state)
	}
	p.put("</p>\n")
	p.filterForm("/flows", "flow", "key", "state", "overdue")
	v.tables(p, "by key", []string{"key", "flow", "state", "waits for", "since", "due", "changed"}, v.verbs(p), func(_ string, s *operate.SagaStanding) { p.flowLine(s) })
}

// verbs of all that the filter chooses.
func (v *flowsPage) verbs(p *page) func(*listedPart[operate.SagaStanding]) {
	if flowsOf(p.q) == (operate.FlowSelection{}) || p.q.arg("key") != "" {
		return nil
	}
	return func(part *listedPart[operate.SagaStanding]) {
		if part.at.compensate == nil {
			return
		}
		p.put("<p class=\"verbs\">")
		p.manyButton("compensate", part.Source, "flow", "state", "overdue")
		p.put("</p>\n")
	}
}

func flowsOf(q *request) operate.FlowSelection {
	return operate.FlowSelection{Flow: q.arg("flow"), State: q.arg("state"), Overdue: q.flag("overdue")}
}

func (p *page) flowLine(s *operate.SagaStanding) {
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

func wishOf(q *request) operate.Wish {
	return operate.Wish{Key: q.arg("key"), Flow: q.arg("flow")}
}

// compensation is the dry run of undoing a choreographed saga.
func (v *plan) compensation(q *request) error {
	if v.at.compensate == nil {
		return refuse(http.StatusBadRequest, "%s keeps no choreographed sagas", v.Source)
	}
	w := wishOf(q)
	v.Command = "skald compensate"
	if v.at.at != "" {
		v.Command += " " + v.at.at
	}
	if w.Flow != "" {
		v.Command += " --flow " + shellWord(w.Flow)
	}
	v.Command += " --reason 'why' -- " + shellWord(w.Key)
	r, err := one(q.Context(), q.h, v.at, func(ctx context.Context, s *source) (operate.CompensateReport, error) {
		return s.compensate(ctx, w, operate.Order{DryRun: true})
	})
	if err != nil {
		return err
	}
	for _, n := range r.Steps {
		v.Undo = append(v.Undo, n.Type)
	}
	for _, a := range r.Before {
		v.Before = append(v.Before, a.Step.Type)
	}
	v.Selected, v.Change = len(r.Steps), len(r.Steps)
	sum := sha256.Sum256([]byte(fmt.Sprint(r.State, v.Undo, v.Before)))
	v.Seen = hex.EncodeToString(sum[:8])
	return nil
}

func (v *plan) undo(p *page) {
	p.put("<p>In <b>%s</b>, the saga <b>%s</b>. Nothing has changed yet.</p>\n<ul>\n", v.Source, p.q.arg("key"))
	for _, step := range v.Undo {
		p.put("<li>the undo of <b>%s</b> is asked for</li>\n", step)
	}
	for _, step := range v.Before {
		p.put("<li>the undo of <b>%s</b> was asked for before, and is not reported yet</li>\n", step)
	}
	p.put("</ul>\n")
}
