package view

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// Actor applies verbs that an operator has confirmed.
type Actor struct{ Jobs *Jobs }

// Act applies a verb, unless its plan has changed since the operator saw it.
func (a Actor) Act(q *page.Request) (page.View, error) {
	v, err := planOf(q)
	if err != nil {
		return nil, err
	}
	reason := strings.TrimSpace(q.Arg("reason"))
	switch {
	case v.changed(q.Arg("seen")):
		v.Changed = "the selection has changed since the page was read, so nothing was done. This is the current state."
		return v.refused(http.StatusConflict, v.Changed), nil
	case reason == "" || utf8.RuneCountInString(reason) > 1000:
		v.Missing = "give a reason of at most 1,000 characters for the audit"
		return v.refused(http.StatusUnprocessableEntity, v.Missing), nil
	case v.More:
		return nil, page.NewRefusal(http.StatusUnprocessableEntity,
			"more than %s are selected: narrow the filter, or type the command", page.Number(v.maxChanges()))
	case v.verb.About != page.Messages && !v.many:
		return v.applyNow(q, reason)
	case v.Change == 0:
		return nil, page.NewRefusal(http.StatusNotFound,
			"nothing is selected any more: it was finished, or another operator was first")
	case v.Verb == "drop" && len(v.Needs) > 0:
		v.Missing = "give the outcome of the external calls"
		return v.refused(http.StatusUnprocessableEntity, v.Missing), nil
	}
	run := v.run(q, "console-"+strings.ToLower(rand.Text()[:12]), reason)
	j, err := a.Jobs.Reserve(v.at, run.ID)
	if err != nil {
		return nil, err
	}
	_, err = page.One(q, v.at, func(ctx context.Context, s *page.Source) (struct{}, error) {
		return struct{}{}, operate.BeginRun(ctx, s.DB, run)
	})
	if err != nil {
		a.Jobs.LetGo(j)
		return nil, err
	}
	a.Jobs.Launch(v.at, run, j)
	j.Wait(q.Context()) // so that the next page already shows the end of most runs
	return q.See("/run", "in", v.Source, "run", run.ID), nil
}

// maxChanges returns the maximum number of messages or sagas that one use of the verb may change.
func (v *plan) maxChanges() int64 {
	if v.verb.About == page.Apart {
		return operate.AdmitBatch
	}
	return page.Exact
}

// changed reports whether the state differs from the state that the operator saw. Parked messages and sagas
// change all the time. So a selection of several of them counts as changed only if it has become larger.
func (v *plan) changed(seen string) bool {
	if v.many || v.verb.About == page.Messages && !v.verb.Dead && v.Selected != 1 {
		_, count, _ := strings.Cut(seen, "-")
		n, err := strconv.Atoi(count)
		return err != nil || v.Change > n
	}
	return seen != v.Seen
}

// applyNow applies a verb without a run, because the verb needs only a few statements.
func (v *plan) applyNow(q *page.Request, reason string) (page.View, error) {
	o := operate.Order{Author: q.Who.Name, Reason: reason}
	if v.verb.About == page.Consumers {
		_, err := page.One(q, v.at,
			func(ctx context.Context, s *page.Source) (struct{},
				error) {
				return struct{}{}, v.apply(ctx, s, o)
			})
		return q.See("/consumer", "in", v.Source, "consumer", v.Request.Selection.Consumer), err
	}
	if v.verb.About == page.Sagas {
		c, sel := sagaChange(q, v.Verb)
		_, err := page.One(q, v.at, func(ctx context.Context, s *page.Source) (operate.SagaReport, error) {
			r, err := operate.ChangeSagas(ctx, s.DB, sel, c, o)
			if len(r.Left) > 0 {
				err = page.NewRefusal(http.StatusConflict, "nothing was done: %s", r.Left[0].Why)
			}
			return r, err
		})
		return q.See("/saga", "in", v.Source, "name", sel.Name, "key", sel.Key), err
	}
	if v.verb.About == page.Flows {
		_, err := page.One(q, v.at,
			func(ctx context.Context, s *page.Source) (operate.CompensateReport, error) {
				return s.Compensate(ctx, wishOf(q), o)
			})
		return q.See("/story", "q", q.Arg("key")), err
	}
	a, err := admissionOf(q)
	if err != nil {
		return nil, err
	}
	_, err = page.One(q, v.at, func(ctx context.Context, s *page.Source) (struct{}, error) {
		_, err := operate.Admit(ctx, s.DB, a, o)
		if partly := new(operate.PartialError); errors.As(err, &partly) {
			err = page.NewRefusal(http.StatusConflict, "%s", partly.Reason)
		}
		return struct{}{}, err
	})
	return q.See("/quarantine", "in", v.Source, "admitted", "1"), err
}

func (v *plan) HTML(p *page.Page) {
	if v.Changed != "" {
		p.Put("<p class=\"note bad\" role=\"alert\">%s</p>\n", v.Changed)
	}
	if v.Stale {
		p.Put("<p class=\"note warn\" role=\"alert\">It has changed since you saw it. This is the current state.</p>\n")
	}
	if v.Missing != "" {
		p.Put("<p class=\"note bad\" role=\"alert\">Nothing was done: %s.</p>\n", v.Missing)
	}
	p.Put("<section class=\"card\">\n<p>%s</p>\n", v.Does)
	switch {
	case v.verb.About == page.Consumers:
		p.Put("<p>In <b>%s</b>, the consumer <b>%s</b>.</p>\n", v.Source, v.Request.Selection.Consumer)
	case v.More:
		p.Put("<p>More than <b>%s</b> of %s are selected: narrow the filter, or type the command.</p>\n",
			page.Number(v.maxChanges()), v.Source)
	case v.many:
		v.meant(p)
	case v.verb.About == page.Flows:
		v.undo(p)
	case v.verb.About == page.Sagas:
		p.Put("<p>In <b>%s</b>, the saga <b>%s %s</b> %s. Nothing has changed yet.</p>\n", v.Source,
			p.Arg("name"), p.Arg("key"), p.Arg("step"))
		for _, why := range v.Before {
			p.Put("<p class=\"note warn\">It would not change: %s</p>\n", why)
		}
	default:
		p.Put("<p>In <b>%s</b> it is about <b>%s</b> message%s", v.Source, page.Number(int64(v.Change)),
			page.Plural(int64(v.Change)))
		if left := v.Selected - v.Change; left > 0 {
			p.Put("; %s rejections do not change, because other services have received them",
				page.Number(int64(left)))
		}
		p.Put(". Nothing has changed yet.</p>\n")
	}
	if !v.More && (v.verb.About == page.Consumers || v.Change > 0) {
		v.form(p)
	}
	p.Put("<p class=\"dim\">Or type it%s:</p>\n<p><code>%s</code></p>\n</section>\n", v.at.Needs(), v.Command)
	v.sample(p)
}

func (v *plan) form(p *page.Page) {
	sel := &v.Request.Selection
	p.Put("<form class=\"act\" method=\"post\" action=\"%s\">\n", p.At("/act"))
	p.Hidden("token", p.Token, "verb", v.Verb, "in", v.Source, "seen", v.Seen)
	for _, name := range append(filters(), "number", "why", "flow", "state", "overdue", "name",
		"step", "occurrence", "status", "stuck", "failing", "paused", "error", "older", "many") {
		value := p.Arg(name)
		if name == "to" {
			value = page.Time(sel.DeadTo)
		}
		if value != "" {
			p.Hidden(name, value)
		}
	}
	if v.Verb == "redrive" && v.Change > 1 {
		p.Put("<label><input type=\"checkbox\" name=\"canary\" value=\"1\" checked> one first, the others only if it succeeds</label>\n")
		p.Put("<label>maximum per second <input name=\"rate\" inputmode=\"decimal\" value=\"%s\" placeholder=\"all at once\"></label>\n", p.Arg("rate"))
		p.Put("<label>stop if more than this share fails again <input name=\"max_errors\" inputmode=\"decimal\" value=\"0.1\"></label>\n")
	}
	if len(v.Needs) > 0 {
		v.calls(p)
	}
	if v.Verb == page.OfSaga+string(operate.CompleteSaga) {
		p.Put("<label>output, as JSON <input name=\"data\" value=\"%s\"></label>\n", p.Arg("data"))
	}
	p.Put("<label>why <input name=\"reason\" required maxlength=\"1000\" value=\"%s\" autocomplete=\"off\"></label>\n", p.Arg("reason"))
	p.Put("<p><button class=\"go\">%s</button> <span class=\"dim\">as %s; recorded in the audit</span></p>\n</form>\n",
		v.verb.Title+countText(v), p.Who.Name)
}

func countText(v *plan) string {
	if !v.many && (v.verb.About == page.Consumers || v.verb.About >= page.Flows) {
		return ""
	}
	return " " + page.Number(int64(v.Change))
}

func (v *plan) calls(p *page.Page) {
	of := fmt.Sprintf("%s of them have an external call without outcome", page.Number(int64(len(v.Needs))))
	if v.Change == 1 {
		of = "It has an external call without outcome"
	}
	p.Put("<fieldset><legend>%s. Skald will not look it up later: look it up at the provider</legend>\n<ul>", of)
	for i, n := range v.Needs {
		if i == 10 {
			p.Put("<li>and others</li>")
			break
		}
		whose := "message " + n.ID
		if n.Step != "" {
			whose = "step " + n.Step + " of " + n.Saga
		}
		p.Put("<li>%s: call <code>%s</code></li>", whose, n.Key)
	}
	p.Put("</ul>\n<label><input type=\"radio\" name=\"call\" value=\"done\" required> done</label>\n" +
		"<label><input type=\"radio\" name=\"call\" value=\"refused\" required> refused, or it never arrived</label>\n</fieldset>\n")
}

func (v *plan) sample(p *page.Page) {
	if len(v.Meant) > 0 {
		v.meantTable(p)
	}
	if len(v.Quarantined) > 0 {
		p.Put("<section class=\"card\"><h2>The first of them</h2>\n")
		quarantineTable(p, v.Quarantined)
		p.Put("<p class=\"dim\">Commands that show their payloads, and the ones that were handled instead:</p>\n")
		for i := range v.Quarantined {
			m := &v.Quarantined[i]
			p.Put("<p><code>%s</code></p>\n", page.LookCommand(v.at.At, m.Consumer, m.From, m.ID))
		}
		p.Put("</section>\n")
	}
	if len(v.Sample) == 0 {
		return
	}
	p.Put("<section class=\"card\">\n<h2>%s</h2>\n", fmt.Sprintf("The first %d", len(v.Sample)))
	p.Table("What would change")
	p.Put("<tr><th scope=\"col\">message</th><th scope=\"col\">consumer</th><th scope=\"col\">state</th>" +
		"<th scope=\"col\">error</th></tr>\n")
	for i := range v.Sample {
		m := &v.Sample[i]
		p.Put("<tr><td>%s<br>", m.Type)
		p.Link(page.Cut(m.ID, page.MostID), "/message", "in", v.Source, "consumer", m.Consumer,
			"source", m.Source, "id", m.ID)
		p.Put("</td><td>%s</td><td>%s</td><td class=\"why\">%s</td></tr>\n", m.Consumer, m.State,
			page.Cut(page.FirstLine(m.LastError), 200))
	}
	p.Put("</table></div>\n</section>\n")
}
