package view

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// sagaPlan computes the effect of a verb on one orchestrated saga.
func (v *plan) sagaPlan(q *page.Request) error {
	c, sel := sagaChange(q, v.Verb)
	v.Command = page.SagaCommand(v.at.At, &c, &sel)
	r, err := page.One(q, v.at, func(ctx context.Context, s *page.Source) (operate.SagaReport, error) {
		was, err := operate.ReadSaga(ctx, s.DB, sel.Name, sel.Key)
		if err != nil {
			return operate.SagaReport{}, err
		}
		d := was.Detail(false)
		v.Seen = d.ID + "-" + strconv.FormatInt(d.Changed.UnixNano(), 36)
		if c.Verb == operate.CompleteSaga && c.Data == nil {
			c.Data = json.RawMessage("null") // a placeholder: the operator enters the data in the form
		}
		r, err := operate.ChangeSagas(ctx, s.DB, sel, c, operate.Order{DryRun: true})
		if partly := new(operate.PartialError); errors.As(err, &partly) {
			err = nil
		}
		return r, err
	})
	v.Selected, v.Change = r.Selected, r.Done
	for _, left := range r.Left {
		v.Before = append(v.Before, left.Why)
	}
	return err
}

func sagaChange(q *page.Request, verb string) (operate.SagaChange, operate.SagaSelection) {
	c := operate.SagaChange{Verb: operate.SagaVerb(verb[len(page.OfSaga):]), Step: q.Arg("step"),
		Occurrence: q.Arg("occurrence")}
	if text := q.Arg("data"); text != "" {
		c.Data = json.RawMessage(text)
	}
	return c, operate.SagaSelection{Name: q.Arg("name"), Key: q.Arg("key")}
}

func wishOf(q *page.Request) operate.CompensateRequest {
	return operate.CompensateRequest{Key: q.Arg("key"), Flow: q.Arg("flow")}
}

// compensation computes the effect of compensating one choreographed saga.
func (v *plan) compensation(q *page.Request) error {
	if v.at.Compensate == nil {
		return page.NewRefusal(http.StatusBadRequest, "%s has no tracker of choreographed sagas", v.Source)
	}
	w := wishOf(q)
	v.Command = page.CompensateCommand(v.at.At, w)
	r, err := page.One(q, v.at,
		func(ctx context.Context, s *page.Source) (operate.CompensateReport, error) {
			return s.Compensate(ctx, w, operate.Order{DryRun: true})
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

func (v *plan) undo(p *page.Page) {
	p.Put("<p>In <b>%s</b>, the saga <b>%s</b>. Nothing has changed yet.</p>\n<ul>\n", v.Source, p.Arg("key"))
	for _, step := range v.Undo {
		p.Put("<li>the undo of <b>%s</b> is requested</li>\n", step)
	}
	for _, step := range v.Before {
		p.Put("<li>the undo of <b>%s</b> was requested before, and is not reported yet</li>\n", step)
	}
	p.Put("</ul>\n")
}
