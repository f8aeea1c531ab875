package operate_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
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
			if !errors.As(err, new(*operate.PartialError)) || len(r.Left) != 1 ||
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

type counted struct {
	N    int8
	At   time.Time
	Note string
}

// A saga is left whose step, or signal, is given what its next step could not read, or more than its
// definition keeps. Of a definition that an older build noted, what it told is checked.
func TestSagaTakesWhatItCanReadOnly(t *testing.T) {
	db, far := memstore.New(nil), saga.Signal[counted]{Name: "counted"}
	wait := saga.Wait[string]("wait", far)
	note := saga.Do("note", func(_ context.Context, tx sagaTx, r saga.Run[string]) (bool, error) {
		return true, tx.Put(r.Key, wait.Output(r).Note)
	}, nil, saga.Pivot())
	o := &saga.Options[string]{Key: func(s string) string { return s }, MaxBytes: 100}
	d := saga.New("order", o, wait, note)
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, d)
	if err != nil {
		t.Fatal(err)
	}
	b := &sagaBench{t, db, e, d}
	b.start("k-1", "k-2")
	tries := func(key, data, want string) {
		t.Helper()
		for _, c := range []operate.SagaChange{{Verb: operate.CompleteSaga, Step: "wait"},
			{Verb: operate.SignalSaga, Signal: "counted"}} {
			c.Data = json.RawMessage(data)
			for _, dry := range []bool{true, false} {
				if want == "" && !dry {
					continue
				}
				r, err := operate.ChangeSagas(t.Context(), b.db, operate.SagaSelection{Key: key}, c,
					operate.Order{DryRun: dry, Author: "ann", Reason: "why"})
				why := ""
				if len(r.Left) == 1 {
					why = r.Left[0].Why
				}
				if (want == "") != (err == nil) || !strings.Contains(why, want) {
					t.Errorf("%s with %.50s: %q, %v, want %q", &c, data, why, err, want)
				}
			}
		}
	}
	large := `{"Note":"` + strings.Repeat("x", 100) + `"}`
	tries("k-1", `{"N":1.5}`, "N: it is a number and has to be an integer from -128 to 127")
	tries("k-1", `{"N":300}`, "N: it is a number and has to be an integer from -128 to 127")
	tries("k-1", `{"At":"now"}`, `At: it is a string and has to be a text such as "2006-`)
	tries("k-1", large, "is 111 bytes as JSON, and the limit is 100")
	fits := `{"N":127, "At":"2026-01-02T15:04:05Z","Note":` + strings.Repeat(" ", 100) + `"tea"}`
	tries("k-1", fits, "")
	b.must("k-1", operate.SagaChange{Verb: operate.SignalSaga, Signal: "counted",
		Data: json.RawMessage(fits)})
	b.stands("k-1", "done")

	l, err := db.List(t.Context(), store.List{Definitions: true})
	if err != nil || len(l.Definitions) != 1 {
		t.Fatalf("%+v, %v", l, err)
	}
	f, err := plan.Read(strings.NewReader(l.Definitions[0].Written))
	if err != nil {
		t.Fatal(err)
	}
	g := &f.Definitions[0].Graph
	g.MaxBytes, g.Steps[0].Reads = 0, "" // as a build before this one wrote it
	var before strings.Builder
	if err := plan.Write(&before, f.Definitions...); err != nil {
		t.Fatal(err)
	}
	l.Definitions[0].Written = before.String()
	if _, err := db.Apply(t.Context(), store.Effect{Definitions: l.Definitions}); err != nil {
		t.Fatal(err)
	}
	tries("k-2", `{"N":300}`, "")
	tries("k-2", large, "")
	tries("k-2", `{"N":"1"}`, "N: it is a string and has to be a number")
}
