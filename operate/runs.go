package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// Run is a change of many messages or sagas, with its request and its progress. skald_audit records both, so
// another process can continue the run after a crash.
type Run struct {
	ID      string     `json:"run"`
	Verb    string     `json:"verb"` // redrive, release, drop, compensate, or "saga " and a SagaVerb
	Author  string     `json:"author"`
	Reason  string     `json:"reason"`
	Begun   time.Time  `json:"begun"`
	Request RunRequest `json:"request"`

	Done    int        `json:"done"`              // the number changed so far
	Last    *time.Time `json:"last_at,omitempty"` // the time of the last change
	Stopped string     `json:"stopped,omitempty"` // the reason of an interruption; the run can be continued
	Ended   string     `json:"ended,omitempty"`   // the outcome; empty until the run has ended

	changed map[runTarget]bool // the targets changed so far
}

// RunRequest is the request of a run.
type RunRequest struct {
	Of        int        `json:"of"` // the number selected when the run began
	Selection Selection  `json:"selection"`
	Pace      Pace       `json:"pace,omitzero"` // for a redrive
	Call      Settlement `json:"call,omitempty"`

	Sagas  *SagaSelection `json:"sagas,omitempty"` // selects sagas for Change, instead of Selection
	Change *SagaChange    `json:"change,omitempty"`
	Flows  *FlowSelection `json:"flows,omitempty"` // selects choreographed sagas to compensate
}

// WithoutData returns the request without the data of a signal or a step. Not every user may read such data.
func (q RunRequest) WithoutData() RunRequest {
	if q.Change != nil && q.Change.Data != nil {
		c := *q.Change
		c.Data = nil
		q.Change = &c
	}
	return q
}

// ActionWithoutData returns the action of an audit without the data that RunRequest.WithoutData removes.
func ActionWithoutData(a *store.Audit) string {
	action := a.Action
	verb, what, text := noteOf(a)
	if what != runBegun {
		return action
	}
	var request RunRequest
	if err := json.Unmarshal([]byte(text), &request); err != nil {
		return verb + runBegun + "an unreadable request"
	}
	if request.Change == nil || request.Change.Data == nil {
		return action
	}
	public, err := json.Marshal(request.WithoutData())
	if err != nil {
		return verb + runBegun + "an unreadable request"
	}
	return verb + runBegun + string(public)
}

// BeginRun records the begin of a run with its request. Then pass r.ID as Order.Run or Pace.Run to the
// function that makes the changes.
func BeginRun(ctx context.Context, db Applier, r Run) error {
	text, err := json.Marshal(r.Request)
	if err != nil {
		return fmt.Errorf("begin the run %s: %w", r.ID, err)
	}
	return r.note(ctx, db, r.Author, r.Reason, runBegun+string(text))
}

// StopRun records the interruption of a run, and its cause.
func StopRun(ctx context.Context, db Applier, r Run, author, cause string) error {
	return r.note(ctx, db, author, r.Reason, runStopped+cause)
}

// EndRun records the outcome of a run. Redrive records the outcome itself.
func EndRun(ctx context.Context, db Applier, r Run, outcome string) error {
	return r.note(ctx, db, r.Author, r.Reason, runEnded+outcome)
}

// maxNoteWait limits the retries of Run.note while a handler locks the file of an SQLite store. Most handlers
// end before that.
const maxNoteWait = 30 * time.Second

func (r *Run) note(ctx context.Context, db Applier, author, reason, what string) (err error) {
	for until := time.Now().Add(maxNoteWait); ; {
		_, err = applyEffect(ctx, db, store.Effect{Audit: &store.Audit{Author: author, Reason: reason,
			Action:   r.Verb + what,
			Consumer: r.Request.Selection.Consumer, Run: r.ID}})
		if !errors.Is(err, store.ErrBusy) || time.Now().After(until) ||
			!backoff.Sleep(ctx, 50*time.Millisecond) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("note the run %s: %w", r.ID, err)
	}
	return nil
}

// ReadRun returns the state of a run. It returns a *NoMatchError if BeginRun has recorded no run with this
// ID.
func ReadRun(ctx context.Context, db RunReader, id string) (r Run, err error) {
	for a, err := range runAudits(ctx, db, id, 0) {
		if err != nil {
			return r, err
		}
		r.take(&a)
	}
	if r.Begun.IsZero() {
		return r, &NoMatchError{Reason: "there is no run " + id}
	}
	return r, nil
}

func beginsRun(a *store.Audit) bool {
	_, what, _ := noteOf(a)
	return what == runBegun
}

// take adds the content of one audit to the run.
func (r *Run) take(a *store.Audit) {
	switch verb, what, text := noteOf(a); what {
	case runBegun:
		if begun, ok := begunRun(a, verb, text); ok && r.Begun.IsZero() {
			*r = begun
		}
	case runStopped:
		r.Stopped = text
	case runEnded:
		r.Ended = text
	default:
		if r.changed == nil {
			r.changed = map[runTarget]bool{}
		}
		at := a.At
		r.changed[runTarget{Consumer: a.Consumer, Identity: a.Identity}] = true
		r.Done, r.Last = len(r.changed), &at
		r.Stopped = "" // the run was continued after the interruption
	}
}

func begunRun(a *store.Audit, verb, text string) (r Run, ok bool) {
	r = Run{ID: a.Run, Verb: verb, Author: a.Author, Reason: a.Reason, Begun: a.At}
	return r, json.Unmarshal([]byte(text), &r.Request) == nil
}

// ReadRuns returns the latest runs, the last begun first. If the argument before is 0, ReadRuns finds runs
// among the last audits. It reads as many audits as the argument within, or five times as many if most
// audits belong to runs. If the result next is not 0, there may be earlier runs: pass it as the argument
// before to read at most 20 of them.
func ReadRuns(ctx context.Context, db RunReader, before int64,
	within int) (out []Run, next int64, err error) {
	if before > 0 {
		return earlierRuns(ctx, db, before, within)
	}
	const most, cut = 5, 20
	runs := map[string][]store.Audit{} // the last audit first
	var ids []string
	for n := 0; n < most; n++ {
		list, err := db.Audits(ctx, store.AuditQuery{Before: next, Limit: within})
		if err != nil {
			return nil, 0, err
		}
		of := 0
		for i := range list {
			a := &list[i]
			if next = a.Number; a.Run == "" {
				continue
			}
			if of++; runs[a.Run] == nil {
				ids = append(ids, a.Run)
			}
			runs[a.Run] = append(runs[a.Run], *a)
		}
		if len(list) < within {
			next = 0
			break
		}
		if of < within/2 {
			break
		}
	}
	reads := 0
	for _, id := range ids {
		acts := runs[id]
		var r Run
		for i := len(acts) - 1; i >= 0; i-- {
			r.take(&acts[i])
		}
		if begins := &acts[len(acts)-1]; r.Begun.IsZero() || !beginsRun(begins) { // the run began earlier
			if reads++; reads > cut {
				continue // a later call returns this run among the earlier runs
			}
			if r, err = ReadRun(ctx, db, id); errors.As(err, new(*NoMatchError)) {
				continue // a watched redrive without BeginRun
			} else if err != nil {
				return nil, 0, err
			}
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b Run) int { return b.Begun.Compare(a.Begun) })
	return out, next, nil
}

// earlierRuns returns the runs that began before the audit with this number, with their present state.
func earlierRuns(ctx context.Context, db RunReader, before int64,
	within int) (out []Run, next int64, err error) {
	const most, pages = 20, 5
	for range pages {
		list, err := db.Audits(ctx, store.AuditQuery{Before: before, Limit: within})
		if err != nil {
			return nil, 0, err
		}
		for i := range list {
			a := &list[i]
			if before = a.Number; !beginsRun(a) {
				continue
			}
			r, err := ReadRun(ctx, db, a.Run)
			if err != nil {
				return nil, 0, err
			}
			if out = append(out, r); len(out) == most {
				return out, before, nil
			}
		}
		if len(list) < within {
			return out, 0, nil
		}
	}
	return out, before, nil
}
