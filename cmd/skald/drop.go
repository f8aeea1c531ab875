package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/store"
)

const dropAbout = `The message is marked as finished and forgotten: its effect never happens, and a repeat of it is dropped. Messages of its key
that wait for it go on. To do instead what it should have done, write another message.

Of one at a call outside that takes or undoes a step of a saga, --call says what you found at the provider, since nobody asks there
again: done, then the step counts as taken (or undone, where the call was to undo it); or refused, then it counts as never called. Where
the provider has answered already, that counts. What its handler would have written behind the call is yours to write.`

func dropCommand(out, errs io.Writer) *cobra.Command {
	d := &drop{w: &wanted{dead: true}}
	c := &cobra.Command{Use: "drop", Short: "Give dead letters up, for a reason", Long: dropAbout, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		if d.call != "" && d.call != callDone && d.call != callRefused {
			return &place.UsageError{What: fmt.Sprintf("--call is %s or %s, not %q", callDone, callRefused, d.call)}
		}
		db, err := openDatabase(from(c, "store", "SKALD_STORE"), d.w.schema, "")
		if err != nil {
			return err
		}
		view, end, err := db.views(c.Context())
		if err != nil {
			return err
		}
		defer end()
		d.view = view
		return (&act{w: d.w, out: out, errs: errs, verb: "drop", effect: d.effect, foresee: d.foresee}).run(c)
	}}
	d.w.bulkFlags(c)
	c.Flags().StringVar(&d.call, "call", "", "what became of the calls outside that they are at: "+callDone+" or "+callRefused)
	return c
}

// What a person found at the provider of a call.
const (
	callDone    = "done"
	callRefused = "refused"
)

type drop struct {
	w    *wanted
	call string
	view table.DB
}

func (d *drop) effect(ctx context.Context, k keeper, p *store.Parked) (e store.Effect, err error) {
	e.Free = &store.Free{Consumer: p.Consumer, Identity: p.Identity, Dead: true}
	if p.Call != nil {
		if e.Step, err = d.step(ctx, p); err != nil {
			return e, err
		}
	}
	e.Mark, err = givenUp(ctx, k, p, "dropped: "+d.w.reason)
	return e, err
}

// foresee says that --call will be wanted.
func (d *drop) foresee(ctx context.Context, p *store.Parked) (string, error) {
	if p.Call == nil {
		return "", nil
	}
	_, err := d.step(ctx, p)
	if wants := (*place.UsageError)(nil); errors.As(err, &wants) {
		return p.ID + ": " + wants.What, nil
	}
	return "", err
}

const calledQuery = `SELECT saga, step, occurrence, source, id, COALESCE(code, 0), result
FROM /*schema*/skald_step WHERE consumer = $1 AND outside_key = $2 AND state = 2`

// step is what becomes of the step that p's call takes or undoes; nil: it has none. Without it whoever is to undo the step would wait
// for a call that nobody settles.
func (d *drop) step(ctx context.Context, p *store.Parked) (s *store.Step, err error) {
	found := cmp.Or(d.call, answered(p.Call))
	err = table.All(ctx, d.view, calledQuery, []any{p.Consumer, p.Call.Key}, func(row table.Row) error {
		at, code, result := store.Step{Consumer: p.Consumer}, int64(0), []byte(nil)
		if err := row.Scan(&at.Saga, &at.Name, &at.Occurrence, &at.Source, &at.ID, &code, &result); err != nil {
			return err
		}
		at.Code, at.Result, at.From = int32(code), string(result), []store.StepState{store.StepCalling}
		at.State = became(at.Identity != p.Identity, found == callDone) // who undoes a step leaves it the one of who took it
		s = &at
		return nil
	})
	if err == nil && s != nil && found == "" {
		err = &place.UsageError{What: fmt.Sprintf("step %s of %s is at the call %s, and nobody asks what became of it once the message is dropped: look it up at the provider, then say --call %s or --call %s",
			s.Name, s.Saga, p.Call.Key, callDone, callRefused)}
	}
	return s, err
}

// answered is what the provider has said of a call; "": nothing yet.
func answered(c *store.Call) string {
	var outcome struct{ Refused bool }
	switch {
	case c.Outcome == "" || json.Unmarshal([]byte(c.Outcome), &outcome) != nil:
		return ""
	case outcome.Refused:
		return callRefused
	}
	return callDone
}

// became is how a step stands behind its call.
func became(undoes, done bool) store.StepState {
	switch {
	case undoes && done:
		return store.StepUndone
	case undoes || done:
		return store.StepDone
	}
	return store.StepRejected
}
