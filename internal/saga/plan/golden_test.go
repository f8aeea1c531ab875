package plan_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
)

var update = flag.Bool("update", false, "write testdata anew, for a reader to check")

// TestTransitions plays the tables of transitions in testdata. A table has a graph, and then events with
// their results. A line is
//
//	event | outcome | state | actions
//
// A run is name:phase, followed by + if sent, ! if stuck, ~n for n failed attempts and @ if it waits for a
// time. The event "tick" is the time that the saga waits for.
func TestTransitions(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := table(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("got:\n%s", got)
			}
		})
	}
}

// table plays a table, and returns it with the results.
func table(t *testing.T, text string) string {
	var out []string
	var g plan.Graph
	var p *plan.Plan
	var s plan.State
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimSpace(line)
		words := strings.Fields(strings.Split(line, "|")[0])
		if line == "" || strings.HasPrefix(line, "#") {
			out = append(out, line)
			continue
		}
		var actions []plan.Action
		outcome := plan.Taken
		switch words[0] {
		case "deadline":
			g.Deadline, _ = time.ParseDuration(words[1])
			out = append(out, line)
			continue
		case "step":
			g.Steps = append(g.Steps, stepOf(t, g, words[1:]))
			out = append(out, line)
			continue
		case "begin":
			g.Name, s = "golden", plan.State{}
			if faults := g.Faults(); len(faults) > 0 {
				t.Fatal(faults)
			}
			p = plan.New(g)
			s, actions = p.Begin("id", now)
		default:
			if words[0] == "tick" {
				now = s.Next()
			}
			s, actions, outcome = p.Advance(s, eventOf(t, words), now)
		}
		s = stored(t, s)
		out = append(out, fmt.Sprintf("%-28s | %-8s | %-60s | %s", strings.Join(words, " "), outcome,
			stateText(s), actionsText(actions)))
	}
	for i := range out {
		out[i] = strings.TrimRight(out[i], " |")
	}
	return strings.Join(out, "\n") + "\n"
}

// stored encodes a state as JSON and decodes it again, because a store would lose data that JSON loses.
func stored(t *testing.T, s plan.State) (back plan.State) {
	data, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func stepOf(t *testing.T, g plan.Graph, words []string) plan.Step {
	s := plan.Step{Name: words[0], Kind: plan.Kind(words[1]),
		Try:  plan.Policy{Attempts: 2, InitialInterval: time.Second, MaxInterval: time.Minute},
		Back: plan.Policy{Attempts: 2, InitialInterval: time.Second, MaxInterval: time.Minute}}
	if n := len(g.Steps); n > 0 {
		s.After = []string{g.Steps[n-1].Name}
	}
	for _, w := range words[2:] {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "undo":
			s.Undo = true
		case "noeffect":
			s.NoEffect = true
		case "pivot":
			s.Pivot = true
		case "when":
			s.When = true
		case "each":
			s.Each = true
		case "lapses":
			s.Lapses = true
		case "start":
			s.After = nil
		case "after":
			s.After = strings.Split(value, ",")
		case "signal":
			s.Signal = value
		case "child":
			s.Child = value
		case "timeout":
			s.Try.Timeout, _ = time.ParseDuration(value)
		case "undotimeout":
			s.Back.Timeout, _ = time.ParseDuration(value)
		case "attempts":
			s.Try.Attempts, _ = strconv.Atoi(value)
		default:
			t.Fatalf("step: %s?", w)
		}
	}
	return s
}

func eventOf(t *testing.T, words []string) plan.Event {
	for _, what := range []plan.What{plan.Decided, plan.Sent, plan.Succeeded, plan.Rejected, plan.Failed,
		plan.Crashed, plan.UndoSent,
		plan.UndoDone, plan.UndoFailed, plan.Signal, plan.Tick, plan.Cancel, plan.Recall, plan.Retry,
		plan.Complete, plan.Skip, plan.Pause, plan.Resume} {
		rest, ok := strings.CutPrefix(strings.Join(words, " ")+" ", string(what)+" ")
		if !ok {
			continue
		}
		e := plan.Event{What: what}
		args := strings.Fields(rest)
		if what == plan.Signal {
			e.Name, args = args[0], args[1:]
			e.Output = json.RawMessage(`"` + e.Name + `"`)
		} else if len(args) > 0 {
			e.Step, args = args[0], args[1:]
		}
		e.Step, e.Occurrence, _ = strings.Cut(e.Step, "/")
		for _, w := range args {
			name, value, _ := strings.Cut(w, "=")
			switch name {
			case "because":
				e.Reason = value
			case "permanent":
				e.Permanent = true
			case "skip":
				e.Skip = true
			case "each":
				e.Occurrences = strings.Split(value, ",")
			case "later":
				e.Later, _ = time.ParseDuration(value)
			case "attempt":
				e.Attempt, _ = strconv.Atoi(value)
			case "until":
				d, err := time.ParseDuration(value)
				if err != nil {
					t.Fatal(err)
				}
				e.Until = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(d)
			default:
				t.Fatalf("event: %s?", w)
			}
		}
		if what == plan.Succeeded || what == plan.Complete {
			e.Output = json.RawMessage(`"` + e.Step + `"`)
		}
		return e
	}
	t.Fatalf("event: %v?", words)
	return plan.Event{}
}

func stateText(s plan.State) string {
	out := []string{string(s.Status)}
	if s.Paused {
		out = append(out, "paused")
	}
	if s.Overdue {
		out = append(out, "overdue")
	}
	for _, r := range s.Runs {
		text := r.Step
		if r.Occurrence != "" {
			text += "/" + r.Occurrence
		}
		text += ":" + string(r.Phase)
		if r.Sent {
			text += "+"
		}
		if r.Stuck {
			text += "!"
		}
		if r.Attempts > 0 {
			text += "~" + strconv.Itoa(r.Attempts)
		}
		if !r.Due.IsZero() {
			text += "@"
		}
		out = append(out, text)
	}
	for _, e := range s.Early {
		out = append(out, "early:"+e.Name)
	}
	return strings.Join(out, " ")
}

func actionsText(actions []plan.Action) string {
	var out []string
	for _, a := range actions {
		text := string(a.Verb)
		if a.Step != "" {
			text += " " + a.Step
		}
		if a.Occurrence != "" {
			text += "/" + a.Occurrence
		}
		if a.Attempt > 0 {
			text += "#" + strconv.Itoa(a.Attempt)
		}
		if a.Sent {
			text += "+"
		}
		if a.Crashes > 0 {
			text += " alone"
		}
		if a.Reason != "" {
			text += " (" + a.Reason + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}
