package view

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// Show is the page that shows the effect of a verb before the operator confirms.
func Show(q *page.Request) (page.View, error) { return planOf(q) }

func planOf(q *page.Request) (*plan, error) {
	s, err := q.Source()
	if err != nil {
		return nil, err
	}
	does, ok := page.Find(q.Arg("verb"))
	if !ok {
		return nil, page.NewRefusal(http.StatusBadRequest, "unknown verb %.40q", q.Arg("verb"))
	}
	v := &plan{Verb: does.Name, Source: s.Name, Does: does.Does, Needs: []needsCall{},
		Sample: []messageLine{}, at: s, verb: does}
	v.many = q.Arg("many") != "" && (does.About == page.Sagas || does.About == page.Flows)
	switch {
	case v.many && does.About == page.Sagas:
		return v, v.manySagas(q)
	case v.many:
		return v, v.manyFlows(q)
	}
	switch does.About {
	case page.Consumers:
		return v, v.planConsumer(q)
	case page.Apart:
		return v, v.admission(q)
	case page.Sagas:
		return v, v.sagaPlan(q)
	case page.Flows:
		return v, v.compensation(q)
	}
	sel, err := messageSelect(q, does.Dead)
	if err != nil {
		return nil, err
	}
	sel.All = !sel.Filtered()
	v.Request.Selection, v.Request.Call = sel, operate.Settlement(q.Arg("call"))
	if v.Request.Pace, err = pace(q); err != nil {
		return nil, err
	}
	_, err = page.One(q, s,
		func(ctx context.Context, s *page.Source) (struct{}, error) { return struct{}{}, v.look(ctx, s) })
	if seen := q.Arg("seen"); err == nil && q.Method == http.MethodGet && seen != "" {
		v.Stale = seen != v.single
	}
	return v, err
}

func pace(q *page.Request) (p operate.Pace, err error) {
	p = operate.Pace{Canary: q.Arg("canary") != "", MaxErrors: 0.1}
	for name, to := range map[string]*float64{"rate": &p.Rate, "max_errors": &p.MaxErrors} {
		if text := q.Arg(name); text != "" {
			if *to, err = strconv.ParseFloat(text, 64); err != nil || *to < 0 {
				return p, page.NewRefusal(http.StatusBadRequest, "%s is a number, not %.40q", name, text)
			}
		}
	}
	if usage := new(operate.UsageError); errors.As(p.CheckNumbers(), &usage) {
		return p, page.NewRefusal(http.StatusBadRequest, "%s", usage.Reason)
	}
	return p, nil
}

// look computes the effect of a verb on the selected messages. It reads at most 10,000 messages.
func (v *plan) look(ctx context.Context, s *page.Source) error {
	sel := v.Request.Selection
	all, err := operate.ListPage(ctx, s.DB, sel, true, operate.PageLimits{Limit: page.Exact,
		Scan: 10 * page.Exact})
	if err != nil {
		return err
	}
	v.Selected, v.More = len(all.List), all.Next > 0
	sum, calls := sha256.New(), 0
	var last time.Time
	for i := range all.List {
		p := &all.List[i]
		if i < 10 {
			v.Sample = append(v.Sample, messageLineOf(p))
		}
		if p.Call != nil {
			calls++
		}
		if v.Verb != "redrive" || p.Dead.Kind != failure.KindRejected {
			v.Change++
		}
		if p.Dead != nil && p.Dead.At.After(last) {
			last = p.Dead.At
		}
		if sel.Dead || len(all.List) == 1 {
			v.single = stateHash(p)
			_, _ = sum.Write([]byte(v.single)) // a hash never fails
		}
	}
	if sel.Dead && sel.DeadTo.IsZero() && !last.IsZero() { // the operator has not seen later dead letters
		v.Request.Selection.DeadTo = last.Add(time.Microsecond)
	}
	v.Seen = hex.EncodeToString(sum.Sum(nil)[:8]) + "-" + strconv.Itoa(v.Change)
	v.Request.Of = v.Change
	if v.Verb == "drop" && calls > 0 && !v.More {
		err = v.unsettled(ctx, s)
	}
	v.Command = page.Command(s.At, v.Verb, &sel, len(v.Needs) > 0)
	return err
}

func (v *plan) unsettled(ctx context.Context, s *page.Source) error {
	r, err := operate.Drop(ctx, s.DB, v.Request.Selection, v.Request.Call, operate.Order{DryRun: true})
	for _, u := range r.Unsettled {
		v.Needs = append(v.Needs, needsCall{u.ID, u.Step, u.Saga, u.Key})
	}
	return err
}

// planConsumer computes the effect of a verb on a consumer.
func (v *plan) planConsumer(q *page.Request) error {
	v.Request.Selection.Consumer, v.Request.Selection.Fingerprint = q.Arg("consumer"), q.Arg("fingerprint")
	fingerprint := v.Request.Selection.Fingerprint
	verb := v.Verb
	switch v.Verb {
	case "pause", "resume":
		fingerprint = ""
	case "unskip":
		verb = "resume"
	}
	v.Command = page.ConsumerCommand(v.at.At, verb, "consumer", v.Request.Selection.Consumer, "fingerprint",
		fingerprint)
	_, err := page.One(q, v.at, func(ctx context.Context, s *page.Source) (struct{}, error) {
		if err := v.apply(ctx, s, operate.Order{DryRun: true}); err != nil {
			return struct{}{}, err
		}
		seen, err := ordersHash(ctx, s, v.Request.Selection.Consumer)
		v.Seen = seen
		return struct{}{}, err
	})
	return err
}

func (v *plan) apply(ctx context.Context, s *page.Source, o operate.Order) error {
	sel := &v.Request.Selection
	switch v.Verb {
	case "pause":
		return operate.PauseInbox(ctx, s.DB, sel.Consumer, o)
	case "resume":
		return operate.ResumeInbox(ctx, s.DB, sel.Consumer, o)
	case "skip":
		return operate.SkipInbox(ctx, s.DB, sel.Consumer, sel.Fingerprint, o)
	}
	return operate.UnskipInbox(ctx, s.DB, sel.Consumer, sel.Fingerprint, o)
}

// admission computes the effect of admitting messages from quarantine.
func (v *plan) admission(q *page.Request) error {
	a, err := admissionOf(q)
	if err != nil {
		return err
	}
	v.Command = page.AdmitCommand(v.at.At, &a, q.Arg("why"))
	_, err = page.One(q, v.at, func(ctx context.Context, s *page.Source) (struct{}, error) {
		r, err := operate.Admit(ctx, s.DB, a, operate.Order{DryRun: true})
		v.Selected, v.Change, v.More = r.Selected, r.Selected, r.Selected > operate.AdmitBatch
		sum := sha256.New()
		for i := range r.Chosen {
			if i < 10 {
				v.Quarantined = append(v.Quarantined, quarantinedOf(s.Name, &r.Chosen[i]))
			}
			fmt.Fprintln(sum, r.Chosen[i].Number)
		}
		v.Seen = hex.EncodeToString(sum.Sum(nil)[:8])
		return struct{}{}, err
	})
	return err
}

func admissionOf(q *page.Request) (a operate.Admission, err error) {
	a = operate.Admission{ID: q.Arg("id"), Consumer: q.Arg("consumer"), Topic: q.Arg("topic"),
		Type: q.Arg("type")}
	if text := q.Arg("number"); text != "" {
		if a.Number, err = strconv.ParseInt(text, 10, 64); err != nil || a.Number <= 0 {
			return a, page.NewRefusal(http.StatusBadRequest,
				"number is the number of a message in quarantine")
		}
	}
	switch q.Arg("why") {
	case "":
	case "conflict":
		a.Why = store.Conflict
	case "too-old":
		a.Why = store.TooOld
	default:
		return a, page.NewRefusal(http.StatusBadRequest, "why is conflict or too-old")
	}
	if a == (operate.Admission{}) {
		a.All = true
	}
	return a, nil
}
