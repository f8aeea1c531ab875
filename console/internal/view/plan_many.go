package view

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// meantSaga is a saga of a bulk action.
type meantSaga struct {
	Name   string `json:"name"`
	Key    string `json:"key"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

// manySagas computes the effect of a verb on all selected orchestrated sagas.
func (v *plan) manySagas(q *page.Request) error {
	sel, err := sagaSelect(q)
	if err != nil {
		return err
	}
	c := operate.SagaChange{Verb: operate.SagaVerb(v.Verb[len(page.OfSaga):])}
	if c.Verb == operate.CompleteSaga || c.Verb == operate.SkipSaga {
		return page.NewRefusal(http.StatusBadRequest, "%s is for a step of one saga", c.Verb)
	}
	sel.All = !sel.Filtered()
	look := sel
	look.Limit, look.Live = page.Exact+1, true
	list, err := page.One(q, v.at, func(ctx context.Context, s *page.Source) ([]operate.Saga, error) {
		return operate.Sagas(ctx, s.DB, look)
	})
	if err != nil {
		return err
	}
	for i := range list[:min(10, len(list))] {
		v.Meant = append(v.Meant, meantSaga{list[i].Name, list[i].Key, list[i].Status,
			page.FirstLine(list[i].Error)})
	}
	v.setCount(len(list))
	if n := len(list); n > 0 && n <= mostTried {
		v.try(q, sel, c)
	}
	v.Request = operate.NewSagaRun("", sel, c, v.Selected, operate.Order{}).Request
	v.Command = page.SagasCommand(v.at.At, &c, &sel)
	return nil
}

// mostTried limits the sagas for which the console makes a dry run of the verb, because each dry run needs a
// read.
const mostTried = 100

// try computes the number of sagas that a verb would change, and the reasons for the others. If this takes
// too long, try counts all selected sagas. That is safe, because the verb checks each saga again.
func (v *plan) try(q *page.Request, sel operate.SagaSelection, c operate.SagaChange) {
	r, err := page.One(q, v.at, func(ctx context.Context, s *page.Source) (operate.SagaReport, error) {
		r, err := operate.ChangeSagas(ctx, s.DB, sel, c, operate.Order{DryRun: true})
		if partly, none := new(operate.PartialError), new(operate.NoMatchError); errors.As(err, &partly) ||
			errors.As(err, &none) {
			err = nil
		}
		return r, err
	})
	if err != nil {
		return
	}
	v.setCount(r.Done)
	v.Selected, v.tried = r.Selected, true
	for _, left := range r.Left {
		if why := left.Why; !slices.Contains(v.Before, why) && len(v.Before) < 10 {
			v.Before = append(v.Before, why)
		}
	}
}

// manyFlows computes the effect of compensating all selected choreographed sagas.
func (v *plan) manyFlows(q *page.Request) error {
	if v.at.Compensate == nil {
		return page.NewRefusal(http.StatusBadRequest, "%s has no tracker of choreographed sagas", v.Source)
	}
	if q.Arg("key") != "" {
		return page.NewRefusal(http.StatusBadRequest,
			"select many sagas by flow, state and overdue; key selects one saga, without many")
	}
	sel := selectFlows(q)
	what := store.TrackedQuery{Flow: sel.Flow, State: sel.State, Overdue: sel.Overdue, Limit: page.Exact + 1}
	list, err := page.One(q, v.at,
		func(ctx context.Context, s *page.Source) ([]operate.SagaProgress, error) {
			return operate.TrackedSagas(ctx, s.DB, what)
		})
	if err != nil {
		return err
	}
	for i := range list[:min(10, len(list))] {
		v.Meant = append(v.Meant, meantSaga{list[i].Name, list[i].Key, list[i].State, ""})
	}
	v.setCount(len(list))
	v.Request.Flows = &sel
	v.Command = page.FlowsCommand(v.at.At, &sel)
	return nil
}

// setCount sets the number of selected sagas. This number changes all the time, so the console later refuses
// the verb only if the number has become larger.
func (v *plan) setCount(n int) {
	v.Selected, v.Change, v.More = n, n, n > page.Exact
	v.Seen = "n-" + strconv.Itoa(n)
	v.Request.Of = n
}

// run returns the run that applies the verb of v to all selected messages or sagas.
func (v *plan) run(q *page.Request, id, reason string) operate.Run {
	if is := &v.Request; is.Sagas != nil {
		return operate.NewSagaRun(id, *is.Sagas, *is.Change, is.Of,
			operate.Order{Author: q.Who.Name, Reason: reason})
	}
	r := operate.Run{ID: id, Verb: v.Verb, Author: q.Who.Name, Reason: reason, Begun: time.Now(),
		Request: v.Request}
	if v.Verb != "redrive" {
		r.Request.Pace = operate.Pace{}
	}
	return r
}

func (v *plan) meant(p *page.Page) {
	if !v.tried {
		p.Put("<p>In <b>%s</b> it is about <b>%s</b>. Nothing has changed yet. A saga to which the verb does not apply by then does not change.</p>\n",
			v.Source, page.Count(int64(v.Change), "saga"))
		return
	}
	p.Put("<p>In <b>%s</b> it would change <b>%s</b> of %s. Nothing has changed yet.</p>\n", v.Source,
		page.Number(int64(v.Change)), page.Count(int64(v.Selected), "saga"))
	for _, why := range v.Before {
		p.Put("<p class=\"note warn\">Some would not change: %s.</p>\n", why)
	}
}

func (v *plan) meantTable(p *page.Page) {
	p.Put("<section class=\"card\">\n<h2>%s</h2>\n", fmt.Sprintf("The first %d", len(v.Meant)))
	p.Table("What is meant")
	p.Heads("saga", "key", "status", "error")
	for _, m := range v.Meant {
		p.Put("<tr><td>%s</td><td>", m.Name)
		if v.verb.About == page.Sagas {
			p.Link(m.Key, "/saga", "in", v.Source, "name", m.Name, "key", m.Key)
		} else {
			p.Link(m.Key, "/story", "q", m.Key)
		}
		p.Put("</td><td>%s</td><td class=\"why\">%s</td></tr>\n", m.Status, page.Cut(m.Error, 200))
	}
	p.Put("</table></div>\n</section>\n")
}
