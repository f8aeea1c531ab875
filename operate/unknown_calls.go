package operate

import (
	"context"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

// UnknownCall is an external call with an unknown outcome. It belongs to a message of a consumer, or to a
// step of an orchestrated saga. The JSON field names are stable.
type UnknownCall struct {
	Consumer string `json:"consumer,omitempty"`
	Source   string `json:"source,omitempty"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Outside  string `json:"outside_key,omitempty"` // the idempotency key at the provider
	Dead     bool   `json:"dead,omitempty"`        // the message is a dead letter, so an operator must decide

	Saga string `json:"saga,omitempty"` // the definition
	Key  string `json:"key,omitempty"`  // the key of the saga
	Step string `json:"step,omitempty"` // the step with its occurrence
	Undo bool   `json:"undo,omitempty"` // the call undoes the step

	Stuck    bool       `json:"stuck,omitempty"` // the saga's step waits for an operator
	Since    *time.Time `json:"since,omitempty"`
	Attempts int        `json:"attempts,omitempty"` // failed attempts
	Error    string     `json:"error,omitempty"`    // the first line of the last error
	// Commands settle the call. After the first command, Skald asks the provider again. Each other command
	// records an outcome that an operator found at the provider.
	Commands []string `json:"commands"`
}

// UnknownCalls lists external calls with an unknown outcome, including calls in progress. It reads at most
// limit messages, limit stuck sagas and limit failing sagas. The argument dbFlag is the flag that selects
// the database: see BlockingMessages.
func UnknownCalls(ctx context.Context, db store.Lister, dbFlag string, limit int) ([]UnknownCall, error) {
	dbFlag = spaced(dbFlag)
	list, err := store.ListParked(ctx, db, store.ParkedQuery{Calling: true, Bare: true, Limit: limit})
	if err != nil {
		return nil, err
	}
	out := []UnknownCall{}
	for i := range list {
		if p := &list[i]; p.Call.Outcome == "" {
			out = append(out, callOf(p, dbFlag))
		}
	}
	plans, err := readPlans(ctx, db)
	if err != nil || len(plans) == 0 {
		return out, err
	}
	seen := map[string]bool{}
	for _, q := range []store.SagaQuery{{Stuck: true, Limit: limit}, {Failing: true, Limit: limit}} {
		all, err := store.ListSagas(ctx, db, q)
		if err != nil {
			return nil, err
		}
		for i := range all {
			if s := &all[i]; !seen[s.ID] {
				seen[s.ID] = true
				out = append(out, callsOf(s, plans[s.Hash], dbFlag)...)
			}
		}
	}
	return out, nil
}

func callOf(p *store.Parked, at string) UnknownCall {
	c := UnknownCall{Consumer: p.Consumer, Source: p.Source, ID: p.ID, Type: p.Message.Type,
		Outside: p.Call.Key, Since: timeOrNil(p.Call.Since),
		Dead: p.Dead != nil, Attempts: p.Attempts, Error: firstLine(p.Last.Why)}
	who := at + " --consumer " + shortlog.Shell(p.Consumer)
	if p.Dead == nil {
		if p.Message.Key != nil {
			who += " --key " + shellKey(p.Message.Key)
		}
		c.Commands = []string{"skald parked release" + who + " --reason 'ask again now'"}
		return c
	}
	who += sourceFlag(p.Source)
	id := " -- " + shortlog.Shell(p.ID) // the ID may begin with a dash
	c.Commands = []string{"skald dead redrive" + who + " --reason 'ask again'" + id}
	for _, found := range []Settlement{CallDone, CallRefused} {
		c.Commands = append(c.Commands, "skald dead drop"+who+" --call "+string(found)+
			" --reason 'found at the provider'"+id)
	}
	return c
}

// callsOf returns the calls of a saga with an unknown outcome. It returns nil if no engine has stored the
// definition of the saga.
func callsOf(s *store.Saga, p *plan.Plan, at string) (out []UnknownCall) {
	if p == nil {
		return nil
	}
	st, err := sagarow.StateOf(*s, p.Graph.Deadline)
	if err != nil {
		return nil // a later version of Skald wrote the state
	}
	for i := range st.Runs {
		r := &st.Runs[i]
		step, known := p.Step(r.Step)
		if open := []plan.Phase{plan.Ready, plan.Undo}; !known || step.Kind != plan.Call || !r.Sent ||
			!slices.Contains(open, r.Phase) {
			continue
		}
		c := UnknownCall{Saga: s.Name, Key: s.Key, Step: sagarow.StepName(r.Step, r.Occurrence),
			Undo: r.Phase == plan.Undo, Stuck: r.Stuck,
			Since: timeOrNil(r.At), Attempts: r.Attempts, Error: firstLine(r.Error)}
		c.Outside = (&engine.Facts{State: &st, Step: r.Step, Occurrence: r.Occurrence,
			Undo: c.Undo}).CallKey()
		of := at + " --step " + shortlog.Shell(r.Step) + occurrenceFlag(r)
		which := sagaArgs(s.Name, s.Key)
		c.Commands = []string{"skald saga retry" + of + " --reason 'ask again'" + which}
		if c.Undo {
			c.Commands = append(c.Commands, "skald saga skip"+of+" --reason 'undone at the provider'"+
				which)
		} else {
			c.Commands = append(c.Commands, "skald saga complete"+of+sample(step.Shape)+
				" --reason 'done at the provider'"+which)
		}
		out = append(out, c)
	}
	return out
}
