package operate_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/skald-go/skald/operate"
)

// A saga is left whose step, or signal, is given no data or data of another type: nothing runs on a zero
// value by mistake. The dry run says so, too; null is a zero value that is meant.
func TestSagaTakesItsTypeOnly(t *testing.T) {
	broken := false
	b := newSagaBench(t, &broken)
	b.start("k-1", "k-2", "k-3")
	complete := operate.SagaChange{Verb: operate.CompleteSaga, Step: "wait"}
	signal := operate.SagaChange{Verb: operate.SignalSaga, Signal: "go"}
	for _, wrong := range []struct {
		change     operate.SagaChange
		data, want string
	}{
		{complete, "", "the output of wait is string, and no data was given"},
		{complete, "{}", "it is an object and has to be a string"},
		{signal, "", "the signal go is string, and no data was given"},
		{signal, "17", "it is a number and has to be a string"},
	} {
		for _, dry := range []bool{true, false} {
			if wrong.data != "" {
				wrong.change.Data = json.RawMessage(wrong.data)
			}
			r, err := operate.ChangeSagas(t.Context(), b.db, operate.SagaSelection{Key: "k-1"}, wrong.change,
				operate.Order{DryRun: dry, Author: "ann", Reason: "why"})
			if !errors.As(err, new(*operate.PartlyError)) || len(r.Left) != 1 ||
				!strings.Contains(r.Left[0].Why, wrong.want) {
				t.Errorf("%s with %q: %+v, %v, want %q", &wrong.change, wrong.data, r, err, wrong.want)
			}
		}
	}
	b.step()
	b.stands("k-1", "running wait")
	if n := len(b.db.AuditLog()); n != 0 {
		t.Errorf("%d audits of what was refused", n)
	}
	complete.Data, signal.Data = json.RawMessage("null"), json.RawMessage("null")
	b.must("k-1", complete)
	b.must("k-2", signal)
	signal.Data = json.RawMessage(`"yes"`)
	b.must("k-3", signal)
	for _, key := range []string{"k-1", "k-2", "k-3"} {
		b.stands(key, "done")
	}
}

// The commands that an explanation names run as they are printed, once the dots are filled in.
func TestExplainNamesWholeCommands(t *testing.T) {
	broken := true
	b := newSagaBench(t, &broken)
	b.start("it's 1")
	explains := func(want string) {
		t.Helper()
		read, err := operate.ReadSaga(t.Context(), b.db, "order", "it's 1")
		lines := read.Explain("--store @o.url")
		if text := strings.Join(lines, "\n"); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s, %v: want %s", text, err, want)
		}
	}
	explains(`skald saga signal --store @o.url --signal go --data '…' --reason '…' -- order 'it'\''s 1'`)
	b.must("it's 1", operate.SagaChange{Verb: operate.PauseSaga})
	explains(`skald saga resume --store @o.url --reason '…' -- order 'it'\''s 1'`)
	b.must("it's 1", operate.SagaChange{Verb: operate.ResumeSaga})
	b.must("it's 1", operate.SagaChange{Verb: operate.SignalSaga, Signal: "go",
		Data: json.RawMessage(`"yes"`)})
	explains(`skald saga retry --store @o.url --step b --reason '…' -- order 'it'\''s 1'`)
}
