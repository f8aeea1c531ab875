package view

import (
	"context"
	"net/http"
	"strings"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// runPage is the page of a bulk action, which skald_audit records as a run.
type runPage struct {
	Source string `json:"source"`
	operate.Run
	Here bool `json:"in_hand"` // this console is running it
	at   *page.Source
}

func (v *runPage) Heading() string { return runTitle(&v.Run) + " " + v.ID }
func (v *runPage) Live()           {}

// Run is the page of one run.
func (js *Jobs) Run(q *page.Request) (page.View, error) {
	v, err := js.runOf(q)
	if err != nil {
		return nil, err
	}
	v.Request = v.Request.WithoutData()
	return v, nil
}

func (js *Jobs) runOf(q *page.Request) (*runPage, error) {
	s, err := q.Source()
	if err != nil {
		return nil, err
	}
	id := q.Arg("run")
	if id == "" {
		return nil, page.NewRefusal(http.StatusBadRequest, "give run=NAME")
	}
	here := js.job(s.Name, id) != nil // before ReadRun: a run that ends in between is then shown as ended
	r, err := page.One(q, s, func(ctx context.Context, s *page.Source) (operate.Run, error) {
		return operate.ReadRun(ctx, s.DB, id)
	})
	return &runPage{s.Name, r, here && r.Ended == "", s}, err
}

// Stop interrupts a run of this console.
func (js *Jobs) Stop(q *page.Request) (page.View, error) {
	s, err := q.Source()
	if err != nil {
		return nil, err
	}
	j, id := js.job(s.Name, q.Arg("run")), q.Arg("run")
	if j == nil { // with a job, stop it without a query, because the database may not answer
		if _, err := js.runOf(q); err != nil {
			return nil, err
		}
		return nil, page.NewRefusal(http.StatusConflict,
			"this console is not running it: it has ended, was interrupted, or another process runs it")
	}
	j.stoppedBy(q.Who.Name)
	j.Wait(q.Context())
	return q.See("/run", "in", s.Name, "run", id), nil
}

// Resume continues an interrupted run.
func (js *Jobs) Resume(q *page.Request) (page.View, error) {
	v, err := js.runOf(q)
	if err != nil {
		return nil, err
	}
	if v.Ended != "" {
		return nil, page.NewRefusal(http.StatusConflict, "the run has ended: %s", v.Ended)
	}
	r := v.Run
	r.Author = q.Who.Name // the audits of further changes name the user that continues the run
	j, err := js.Reserve(v.at, r.ID)
	if err != nil {
		return nil, err
	}
	js.Launch(v.at, r, j)
	j.Wait(q.Context())
	return q.See("/run", "in", v.Source, "run", v.ID), nil
}

func (v *runPage) HTML(p *page.Page) {
	p.Put("<section class=\"card\">\n<dl class=\"rows\">\n")
	p.Row("source", v.Source)
	p.Row("by", v.Author)
	p.Row("why", v.Reason)
	p.Put("<div><dt>begun</dt><dd>")
	p.When(v.Begun)
	p.Put("</dd></div>\n")
	sel := &v.Request.Selection
	for _, f := range [][2]string{{"consumer", sel.Consumer}, {"message", sel.ID},
		{"key", page.Key(sel.Key)}, {"type", sel.Type}, {"topic", sel.Topic}, {"kind", sel.Kind},
		{"fingerprint", sel.Fingerprint}} {
		p.Row(f[0], f[1])
	}
	v.sagas(p)
	if v.Request.Pace.Canary {
		p.Row("canary", "one first, the others only if it succeeds")
	}
	p.Put("</dl>\n<p><progress aria-label=\"changed\" max=\"%d\" value=\"%d\"></progress> <b>%d of %d</b> %s changed</p>\n", max(v.Request.Of, 1), v.Done, v.Done, v.Request.Of, things(&v.Request))
	switch {
	case v.Ended != "":
		class := "fine"
		if strings.Contains(v.Ended, "failed again: ") {
			class = "bad"
		}
		p.Put("<p class=\"note %s\">Ended: %s.</p>\n", class, v.Ended)
	case v.Here:
		p.Put("<p class=\"note\">In hand. It continues if you leave this page. If the process of the console ends, it is interrupted, and you can go on with it here.</p>\n")
		v.button(p, "/run/stop", "Stop")
	case v.Stopped != "":
		p.Put("<p class=\"note warn\">Interrupted: %s.</p>\n", v.Stopped)
		v.button(p, "/run/resume", "Go on")
	default:
		p.Put("<p class=\"note warn\">This console is not running it. If no other console is running it, go on: finished work is not repeated.</p>\n")
		v.button(p, "/run/resume", "Go on")
	}
	p.Put("</section>\n")
}

// sagas writes the filters that select the sagas of the run.
func (v *runPage) sagas(p *page.Page) {
	if s := v.Request.Sagas; s != nil {
		for _, f := range [][2]string{{"saga", s.Name}, {"key", s.Key}, {"id", s.ID}, {"status", s.Status},
			{"at step", s.Step}, {"error", s.Error}} {
			p.Row(f[0], f[1])
		}
		for _, f := range []struct {
			name string
			is   bool
		}{{"stuck", s.Stuck}, {"retrying", s.Failing}, {"paused", s.Paused}} {
			if f.is {
				p.Row("only", f.name)
			}
		}
		p.Row("started before", page.Time(s.StartedBefore))
	}
	if s := v.Request.Flows; s != nil {
		p.Row("flow", s.Flow)
		p.Row("state", s.State)
		if s.Overdue {
			p.Row("only", "overdue")
		}
	}
}

func (v *runPage) button(p *page.Page, path, text string) {
	if !p.May(page.Act) {
		return
	}
	p.Put("<form method=\"post\" action=\"%s\">", p.At(path))
	p.Hidden("token", p.Token, "in", v.Source, "run", v.ID)
	p.Put("<button>%s</button></form>\n", text)
}
