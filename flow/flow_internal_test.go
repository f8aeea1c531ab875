package flow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/skald-go/skald"
)

func event(name string) skald.Event[string] { return skald.Event[string]{Topic: "orders", Type: name} }

func placing(t interface {
	Helper()
	Fatal(args ...any)
}) *Flow {
	t.Helper()
	f, err := New("order", From(event("placed")),
		Then(event("placed"), event("taken"), event("declined")).Within(time.Minute),
		Then(event("taken"), event("confirmed"), event("short")),
		Then(event("short"), event("cancelled")), Then(event("declined"), event("cancelled")),
		Fail(event("declined"), event("short")), Undo(event("taken"), event("refunded")).Within(time.Hour),
		End(event("confirmed"), event("cancelled")))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// arrival is one message. The number id identifies it within its kind.
type arrival struct {
	name string
	id   int
}

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func add(f *Flow, r *record, a arrival) {
	r.add(f, Name{"orders", a.name}, ID{"/shop", fmt.Sprint(a.name, a.id)}, []byte("o-1"),
		noon().Add(time.Duration(a.id)*time.Second))
	if a.id > 0 { // the first message of each kind has no trace
		r.trace(fmt.Sprintf("00-%032x-00f067aa0ba902b7-01", len(a.name)),
			noon().Add(time.Duration(a.id)*time.Second))
	}
}

// TestTraceOf checks that a saga has the trace of its earliest message with a valid trace.
func TestTraceOf(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for parent, want := range map[string]string{
		"00-" + id + "-00f067aa0ba902b7-01": id, "": "", "00-" + id: "", "00-" + strings.Repeat("0", 32) +
			"-00f067aa0ba902b7-01": "",
		"00-" + strings.ToUpper(id) + "-00f067aa0ba902b7-01": "", "00-" + id[1:] +
			"\"-00f067aa0ba902b7-01": "",
	} {
		if got := TraceOf(parent); got != want {
			t.Errorf("%q has the trace %q, want %q", parent, got, want)
		}
	}
	var r record
	for i, name := range []string{"00-" + strings.Repeat("b", 32) + "-1-1", "00-" + strings.Repeat("a", 32) +
		"-1-1", "", "00-" + strings.Repeat("c", 32) + "-1-1"} {
		r.trace(name, noon().Add([]time.Duration{2, 1, 0, 1}[i]*time.Second))
	}
	if r.Trace != strings.Repeat("a", 32) {
		t.Errorf("the trace is %s", r.Trace)
	}
}

// model returns the state and the number of waits of a saga with the events in came. It computes them without
// the code of the flow.
func model(came map[string]bool) (state string, waits int) {
	wait := func(is bool) {
		if is {
			waits++
		}
	}
	failed := came["declined"] || came["short"] || came["refunded"]
	wait(came["placed"] && !came["taken"] && !came["declined"] && !failed)
	wait(came["taken"] && !came["confirmed"] && !came["short"] && !failed)
	wait(came["short"] && !came["cancelled"])
	wait(came["declined"] && !came["cancelled"])
	wait(came["taken"] && failed && !came["refunded"])
	missing := (came["taken"] || came["declined"]) && !came["placed"] ||
		(came["confirmed"] || came["short"] || came["refunded"]) && !came["taken"] ||
		came["cancelled"] && !came["short"] && !came["declined"]
	ended := (came["confirmed"] || came["cancelled"]) && waits == 0 && !missing
	switch {
	case failed && ended:
		return Compensated, waits
	case failed:
		return Compensating, waits
	case ended:
		return Done, waits
	}
	return Running, waits
}

func permutations[T any](all []T, each func([]T)) {
	var walk func(n int)
	walk = func(n int) {
		if n == len(all) {
			each(all)
			return
		}
		for i := n; i < len(all); i++ {
			all[n], all[i] = all[i], all[n]
			walk(n + 1)
			all[n], all[i] = all[i], all[n]
		}
	}
	walk(0)
}

func text(t interface{ Fatal(args ...any) }, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestAllOrders checks that the row does not depend on the order and the repetition of messages, and that its
// state is that of the model.
func TestAllOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := placing(t)
		kinds := []string{"placed", "taken", "declined", "confirmed", "short", "cancelled",
			"refunded", "archived"}
		messages := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) arrival {
			return arrival{rapid.SampledFrom(kinds).Draw(t, "kind"), rapid.IntRange(0, 2).Draw(t, "id")}
		}), 1, 6).Draw(t, "messages")
		came, first := map[string]bool{}, ""
		for _, a := range messages {
			came[a.name] = true
		}
		wantState, wantWaits := model(came)
		permutations(messages, func(order []arrival) {
			var r record
			for _, a := range order {
				add(f, &r, a)
			}
			s := f.stateOf(&r)
			if s.State != wantState || len(s.Waiting) != wantWaits {
				t.Fatalf("%v: %s with %d waits, want %s with %d", order, s.State, len(s.Waiting),
					wantState, wantWaits)
			}
			if now := text(t, body{seen: seen{Seen: r}, Saga: s}); first == "" {
				first = now
			} else if now != first {
				t.Fatalf("%v:\n%s\nanother order:\n%s", order, now, first)
			}
		})
	})
}

// TestNeverBackwards checks that no order of arrival moves the row backwards, for events that the flow
// allows.
func TestNeverBackwards(t *testing.T) {
	f := placing(t)
	rank := map[string]int{Running: 1, Compensating: 2, Done: 3, Compensated: 3}
	for _, run := range []string{"placed taken confirmed", "placed declined cancelled",
		"placed taken short cancelled refunded"} {
		permutations(strings.Fields(run), func(order []string) {
			var r record
			was, steps := 0, 0
			for i, name := range append(slices.Clone(order), order...) { // each message arrives twice
				add(f, &r, arrival{name, 0})
				s := f.stateOf(&r)
				if rank[s.State] < was || len(s.Steps) < steps || len(s.Drift) > 0 {
					t.Fatalf("%v: after %d it went back to %s (%v)", order, i+1, s.State, s.Drift)
				}
				was, steps = rank[s.State], len(s.Steps)
			}
			if was != 3 {
				t.Fatalf("%v did not end", order)
			}
		})
	}
}

// TestBounds checks that a row is bounded, and that the bounds do not depend on the order of messages.
func TestBounds(t *testing.T) {
	f := placing(t)
	fill := func(step int) {
		var r record
		for i := range 100 {
			n := i * step % 101
			add(f, &r, arrival{"placed", n})
			add(f, &r, arrival{fmt.Sprintf("strange %03d", n), 0})
		}
		if p, _ := r.find(Name{"orders", "placed"}); len(p.IDs) != maxIDs || !p.More ||
			len(r.Steps) != maxDrift+1 || !r.Drift {
			t.Fatalf("kept %d identities and %d kinds", len(p.IDs), len(r.Steps))
		}
	}
	fill(1)
	fill(37)
	var up, down record
	for i := range 50 {
		add(f, &up, arrival{fmt.Sprintf("strange %03d", i), i})
		add(f, &down, arrival{fmt.Sprintf("strange %03d", 49-i), 49 - i})
	}
	if text(t, up) != text(t, down) {
		t.Errorf("%s\nother order:\n%s", text(t, up), text(t, down))
	}
}

func TestSagaState(t *testing.T) {
	f := placing(t)
	var r record
	add(f, &r, arrival{"placed", 0})
	add(f, &r, arrival{"taken", 10})
	s := f.stateOf(&r)
	if got := fmt.Sprint(s.State, s.Waiting[0].For, s.Remaining, s.Undo,
		s.Due); got != "running[confirmed short] [confirmed] [taken] <nil>" {
		t.Errorf("after the payment: %s", got)
	}
	add(f, &r, arrival{"short", 20})
	s = f.stateOf(&r)
	if got := fmt.Sprint(s.State, s.Remaining, s.Undo,
		s.Due.Sub(noon())); got != "compensating[cancelled refunded] [taken] 1h0m20s" {
		t.Errorf("after the failure: %s", got)
	}
	add(f, &r, arrival{"confirmed", 30})
	if s = f.stateOf(&r); len(s.Drift) != 1 || !strings.Contains(s.Drift[0], "the flow allows one of them") {
		t.Errorf("drift %q", s.Drift)
	}
}

func TestMistakes(t *testing.T) {
	for want, rules := range map[string][]Rule{
		"nothing begins it": {End(event("b"))},
		"nothing ends it":   {From(event("a"))},
		"taken has no consumer": {From(event("a")), Then(event("a"), event("taken")),
			End(event("b"))},
		"lost cannot occur": {From(event("a")), Then(event("lost"), event("b")),
			Then(event("a"), event("b")), End(event("b"))},
		"nothing undoes it: add flow.Undo(paid, …": {From(event("a")), Then(event("a"), event("paid")),
			Then(event("paid"), event("b"), event("no")), Then(event("no"), event("b")), Fail(event("no")),
			End(event("b"))},
		"it needs both": {From(skald.Event[int]{Type: "a"}), End(event("b"))},
		"beside may occur before the failure no": {From(event("a")), Then(event("a"), event("beside")),
			Then(event("a"), event("no"), event("b")),
			Then(event("beside"), event("b")), Then(event("no"), event("b")), Fail(event("no")),
			End(event("b"))},
	} {
		if _, err := New("f", rules...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestWrite(t *testing.T) {
	var b strings.Builder
	if err := Write(&b, placing(t)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"placed: then taken or declined within 1m0s\n",
		"taken is undone by refunded within 1h0m0s\n", "flowchart TD\n", "e1 -. undone by .-> e6\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q in\n%s", want, b.String())
		}
	}
}
