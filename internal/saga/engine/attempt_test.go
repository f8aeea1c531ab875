package engine

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/saga/plan"
)

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestRunConvertsPanicsAndGoexitToErrors(t *testing.T) {
	own := errors.New("no stock")
	if err := run(func() error { return own }, false); err != own {
		t.Errorf("its own error became %v", err)
	}
	var p *failure.PanicError
	if err := run(func() error { panic("oops") }, true); !errors.As(err, &p) {
		t.Errorf("a panic became %v", err)
	}
	if err := run(func() error { runtime.Goexit(); return nil }, false); !errors.Is(err, failure.ErrQuit) {
		t.Errorf("the end of its goroutine became %v", err)
	}
	err := run(func() error { var none *nilError; return none }, false)
	if err == nil || err.Error() == "" {
		t.Errorf("a nil pointer became %v", err)
	}
}

func TestFailedConvertsErrorsToEvents(t *testing.T) {
	do := plan.Action{Verb: plan.RunStep, Step: "pay", Attempt: 2}
	undo := plan.Action{Verb: plan.UndoStep, Step: "pay", Attempt: 2}
	no, never := skald.Reject(errors.New("no")), skald.Permanent(errors.New("never"))
	for _, c := range []struct {
		name string
		a    plan.Action
		err  error
		want plan.Event
	}{
		{"an error", do, errors.New("no"), plan.Event{What: plan.Failed, Attempt: 2}},
		{"a rejection", do, no, plan.Event{What: plan.Rejected}},
		{"a rejection by an undo", undo, no, plan.Event{What: plan.UndoFailed, Attempt: 2, Permanent: true}},
		{"a permanent one", do, fmt.Errorf("pay: %w", never),
			plan.Event{What: plan.Failed, Attempt: 2, Permanent: true}},
		{"an outage", do, fmt.Errorf("pay: %w", skald.Outage(errors.New("away"))),
			plan.Event{What: plan.Failed, Attempt: 2, Passing: true}},
		{"another build's", do, skald.UnknownVersion(errors.New("v2")),
			plan.Event{What: plan.Failed, Attempt: 2, Later: versionWait}},
	} {
		got := failureEvent(c.a, c.err)
		if c.want.Step, c.want.Reason = "pay", c.err.Error(); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
