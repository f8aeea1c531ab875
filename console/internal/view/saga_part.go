// This file has the page that lists orchestrated sagas, and reads the page of one saga.

package view

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// sagasPage lists orchestrated sagas.
type sagasPage struct{ listed[operate.Saga] }

// SagaList is the page of orchestrated sagas.
func SagaList(q *page.Request) (page.View, error) {
	sel, err := sagaSelect(q)
	if err != nil {
		return nil, err
	}
	after, err := sagaAfter(q)
	if err != nil {
		return nil, err
	}
	v := &sagasPage{}
	v.Parts, v.Away, err = page.Parts(q,
		func(ctx context.Context, s *page.Source) (listedPart[operate.Saga], error) {
			list, err := operate.SagasAfter(ctx, s.DB, sel, after,
				operate.PageLimits{Limit: page.Rows, Scan: mostSagas})
			return listedPart[operate.Saga]{Source: s.Name, Sagas: append([]operate.Saga{}, list.List...),
				More: list.Next != nil,
				Next: sagaNext(list.Next), Scanned: list.Scanned, at: s}, err
		})
	return v, err
}

// mostSagas limits the sagas that are read for a page. No index supports the filters step, error and time.
const mostSagas = 20_000

// nextSagas writes the link to the page of a source that begins at the cursor.
func nextSagas(p *page.Page, source, cursor string, scanned int) {
	args := []string{"in", source, "after", cursor}
	for _, name := range sagaFilters() {
		args = append(args, name, p.Arg(name))
	}
	p.Put("<p>")
	if scanned > 0 {
		p.Put("%s were scanned: filter by status or name to scan fewer. ", page.Number(int64(scanned)))
	}
	p.Link("The next ones", "/sagas", args...)
	p.Put("</p>\n")
}

// sagaNext encodes the argument "after" of the next page.
func sagaNext(s *store.SagaRef) string {
	if s == nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(len(s.Name)) + " " + s.Name + s.Key))
}

func sagaAfter(q *page.Request) (*store.SagaRef, error) {
	text := q.Arg("after")
	if text == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	size, both, ok := strings.Cut(string(raw), " ")
	n, of := strconv.Atoi(size)
	if err != nil || of != nil || !ok || n < 0 || n > len(both) {
		return nil, page.NewRefusal(http.StatusBadRequest, "after must come from the link to the next page")
	}
	return &store.SagaRef{Name: both[:n], Key: both[n:]}, nil
}

func (*sagasPage) Heading() string { return "Sagas" }

func (v *sagasPage) HTML(p *page.Page) {
	p.Away(v.Away)
	p.Put("<p class=\"verbs\">")
	for _, of := range [][2]string{{"stuck", "stuck"}, {"failing", "retrying"}, {"paused", "paused"}} {
		p.Link(of[1], "/sagas", of[0], "1")
		p.Put(" ")
	}
	for _, status := range operate.SagaStatuses() {
		p.Link(status, "/sagas", "status", status)
		p.Put(" ")
	}
	p.Put("</p>\n")
	p.FilterForm("/sagas", "name", "key", "status", "stuck", "failing", "paused", "step", "error", "older")
	v.tables(p, "by name and key", []string{"saga", "status", "at step", "retrying", "error", "started"},
		v.verbs(p), func(source string, s *operate.Saga) { sagaLine(p, source, s) })
}

// hasEnded reports whether a saga with this status has ended.
func hasEnded(status string) bool { return status == "done" || status == "compensated" }

// verbs writes the verbs that may apply to the sagas that match the filter.
func (v *sagasPage) verbs(p *page.Page) func(*listedPart[operate.Saga]) {
	sel, err := sagaSelect(p.Request)
	if err != nil || !sel.Filtered() || hasEnded(sel.Status) {
		return nil
	}
	verbs := []operate.SagaVerb{operate.CancelSaga, operate.PauseSaga}
	if sel.Paused {
		verbs[1] = operate.ResumeSaga
	}
	if sel.Stuck || sel.Failing {
		verbs = append([]operate.SagaVerb{operate.RetrySaga}, verbs...)
	}
	return func(part *listedPart[operate.Saga]) {
		p.Put("<p class=\"verbs\">")
		for _, verb := range verbs {
			manyButton(p, page.OfSaga+string(verb), part.Source, sagaFilters()...)
		}
		p.Put("</p>\n")
	}
}

func sagaLine(p *page.Page, source string, s *operate.Saga) {
	p.Put("<tr><td>%s<br>", s.Name)
	p.Link(s.Key, "/saga", "in", source, "name", s.Name, "key", s.Key)
	p.Put("</td><td>%s", s.Status)
	if s.Stuck {
		p.Put(" <b class=\"late\">stuck</b>")
	}
	if s.Paused {
		p.Put(" <b>paused</b>")
	}
	p.Put("</td><td>%s</td><td>", s.Step)
	retrying(p, s)
	p.Put("</td><td class=\"why\">%s</td><td>", page.Cut(page.FirstLine(s.Error), 200))
	p.When(s.Started)
	p.Put("</td></tr>\n")
}

// retrying writes the time of the first failure of a running saga, and the time of the next attempt.
func retrying(p *page.Page, s *operate.Saga) {
	if s.Failed == 0 {
		return
	}
	p.Put("attempt %d", s.Failed+1)
	if s.Since != nil {
		p.Put(", failing since ")
		p.When(*s.Since)
	}
	if s.Retry != nil {
		if d := time.Until(*s.Retry); d > 0 {
			p.Put(", next in %s", page.Ago(d))
		} else {
			p.Put(", due")
		}
	}
}

// sagaPage is the page of one orchestrated saga, without its input and its outputs.
type sagaPage struct {
	Source string `json:"source"`
	operate.SagaDetail
	Explained []string   `json:"explained"`
	Shown     *shownSaga `json:"data,omitempty"`
	picture   string     // an SVG; "" if no engine has stored the definition
	forward   bool       // the saga can no longer turn back
	at        *page.Source
}

// shownSaga has the input and the outputs for a page. The audit has a record of the access.
type shownSaga struct {
	Input   string            `json:"input"`
	Outputs map[string]string `json:"outputs"`
}

// SagaPages has the pages of orchestrated sagas.
type SagaPages struct{ Mask page.Mask }

// Saga is the page of one orchestrated saga.
func (SagaPages) Saga(q *page.Request) (page.View, error) { return readSaga(q, false) }

func readSaga(q *page.Request, data bool) (*sagaPage, error) {
	s, err := q.Source()
	if err != nil {
		return nil, err
	}
	name, key := q.Arg("name"), q.Arg("key")
	if key == "" {
		return nil, page.NewRefusal(http.StatusBadRequest, "give name and key of a saga")
	}
	return page.One(q, s, func(ctx context.Context, s *page.Source) (*sagaPage, error) {
		r, err := operate.ReadSaga(ctx, s.DB, name, key)
		if err != nil {
			return nil, err
		}
		v := &sagaPage{Source: s.Name, SagaDetail: r.Detail(data), Explained: r.Explain(s.At), at: s,
			forward: r.CancelRefusal() != ""}
		v.picture, err = r.Pictures()
		if none := new(operate.NoMatchError); errors.As(err, &none) {
			err = nil
		}
		return v, err
	})
}

// Data is the page of a saga with its input and its outputs. It first records the access in the audit.
func (is SagaPages) Data(q *page.Request) (page.View, error) {
	v, err := readSaga(q, true)
	if err != nil {
		return nil, err
	}
	if err := page.Note(q, v.at, "viewed in the console", "show saga data", v.Name,
		store.Identity{Source: v.ID, ID: v.Key}); err != nil {
		return nil, err
	}
	v.Shown = &shownSaga{Input: is.Mask.Saga(v.Name, v.Input), Outputs: map[string]string{}}
	for i := range v.Runs {
		if r := &v.Runs[i]; r.Output != nil {
			v.Shown.Outputs[r.Step+" "+r.Occurrence] = is.Mask.Saga(v.Name+"/"+r.Step, r.Output)
			r.Output = nil
		}
	}
	v.Input = nil
	return v, nil
}
