package plan_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/skald-go/skald/internal/saga/plan"
)

func line(t *testing.T, steps ...string) plan.Graph {
	g := plan.Graph{Name: "order"}
	for _, s := range steps {
		g.Steps = append(g.Steps, stepOf(t, g, strings.Fields(s)))
	}
	return g
}

// at returns a saga that has done the named steps of its graph.
func at(g plan.Graph, done ...string) plan.State {
	p := plan.New(g)
	s, _ := p.Begin("id", time.Now())
	for _, name := range done {
		s, _, _ = p.Advance(s, plan.Event{What: plan.Succeeded, Step: name}, time.Now())
	}
	return s
}

func TestChanges(t *testing.T) {
	older := line(t, "hold do undo", "charge call undo", "ship do undo")
	for name, c := range map[string]struct {
		newer  plan.Graph
		by     plan.Mapping
		want   []string
		young  string // the error for a saga at hold, or ""
		middle string // the error for a saga at charge
	}{
		"the same": {newer: line(t, "hold do undo", "charge call undo",
			"ship do undo attempts=5 timeout=1m")},
		"one more at the end": {newer: line(t, "hold do undo", "charge call undo", "ship do undo",
			"thank do undo")},
		"one more in the middle": {newer: line(t, "hold do undo", "look do noeffect", "charge call undo",
			"ship do undo"),
			want: []string{`mapping: step "look": it is new, before "charge"; to skip it there, name it in Skip (for sagas that have begun "charge")`}, middle: "cannot continue"},
		"the same, skipped": {newer: line(t, "hold do undo", "look do noeffect", "charge call undo",
			"ship do undo"), by: plan.Mapping{Skip: []string{"look"}},
			want: []string{`compatible: step "look": it comes before "charge" now, and is skipped there (for sagas that have begun "charge")`}},
		"one gone": {newer: line(t, "charge call undo", "ship do undo"),
			want:  []string{`refused: step "hold": it was removed, so its effect could not be undone; keep the step, or name it in Rename (for sagas that have begun "hold")`},
			young: "cannot continue", middle: "cannot continue"},
		"renamed": {newer: line(t, "reserve do undo", "charge call undo", "ship do undo"),
			by: plan.Mapping{Rename: map[string]string{"hold": "reserve"}}},
		"another kind": {newer: line(t, "hold do undo", "charge do undo", "ship do undo"),
			want:   []string{`refused: step "charge": it is a do , and was a call`},
			middle: "cannot continue"},
		"no undo": {newer: line(t, "hold do noeffect", "charge call undo", "ship do undo"),
			want:  []string{`refused: step "hold": its undo was removed`},
			young: "cannot continue", middle: "cannot continue"},
		"another order": {newer: line(t, "charge call undo", "hold do undo", "ship do undo"),
			want:  []string{`refused: step "charge": it comes before "hold" now`},
			young: "cannot continue", middle: "cannot continue"},
		"a pivot": {newer: line(t, "hold do undo", "charge call undo pivot", "ship do"),
			want: []string{`refused: step "ship": its undo was removed`,
				`compatible: step "charge": it is the pivot now`}},
	} {
		t.Run(name, func(t *testing.T) {
			if faults := c.newer.Faults(); len(faults) > 0 {
				t.Fatal(faults)
			}
			got := fmt.Sprint(plan.Compare(older, c.newer, c.by))
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %s\nwant %s", got, want)
				}
			}
			if len(c.want) == 0 && got != "[]" {
				t.Error("got", got)
			}
			for saga, want := range map[*plan.State]string{ptr(at(older)): c.young,
				ptr(at(older, "hold")): c.middle} {
				moved, err := plan.Move(older, c.newer, c.by, *saga)
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("moved to %s: %v, want %q", stateText(moved), err, want)
				}
			}
		})
	}
}

// TestAnotherChild: a saga that began a child of one definition cannot undo it by another.
func TestAnotherChild(t *testing.T) {
	older, newer := line(t, "pay do undo", "trip child undo child=train"),
		line(t, "pay do undo", "trip child undo child=plane")
	if older.Hash() == newer.Hash() {
		t.Error("the hashes are equal")
	}
	want := `[refused: step "trip": its child is a saga "plane", and was a saga "train" (for sagas that have begun "trip")]`
	if got := fmt.Sprint(plan.Compare(older, newer, plan.Mapping{})); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for n, s := range []plan.State{at(older), at(older, "pay")} {
		if _, err := plan.Move(older, newer, plan.Mapping{}, s); (err == nil) != (n == 0) {
			t.Errorf("a saga that has done %d steps: %v", n, err)
		}
	}
}

// TestRenamedRunKeepsItsName: a renamed run keeps its earlier name, and a newer step of that name gets
// another.
func TestRenamedRunKeepsItsName(t *testing.T) {
	older, newer := line(t, "hold do undo", "charge call undo"),
		line(t, "reserve do undo", "charge call undo", "hold do undo")
	s, err := plan.Move(older, newer, plan.Mapping{Rename: map[string]string{"hold": "reserve"}},
		at(older, "hold"))
	if err != nil {
		t.Fatal(err)
	}
	s, _, _ = plan.New(newer).Advance(s, plan.Event{What: plan.Succeeded, Step: "charge"}, time.Now())
	var got []string
	for _, r := range s.Runs {
		got = append(got, r.Step+" as "+r.Born())
	}
	if want := []string{"reserve as hold", "charge as charge", "hold as hold'"}; !slices.Equal(got, want) {
		t.Errorf("runs: %v, want %v", got, want)
	}
}

func ptr[T any](v T) *T { return &v }

// TestMove checks, for any two definitions, that a moved saga is consistent with the newer definition. All
// predecessors of its runs have run, no step runs twice, and each effect can be undone.
func TestMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		older, newer := graphs(t), graphs(t)
		if rapid.Bool().Draw(t, "some are new") {
			older = without(newer, newer.Steps[rapid.IntRange(0, len(newer.Steps)-1).Draw(t, "new")].Name,
				newer.Steps[rapid.IntRange(0, len(newer.Steps)-1).Draw(t, "new")].Name)
		}
		if len(older.Faults()) > 0 {
			t.Skip()
		}
		p, is := plan.New(older), plan.New(newer)
		s, _ := p.Begin("id", time.Now())
		for range rapid.IntRange(0, 12).Draw(t, "moves") {
			if todo := p.Pending(s); len(todo) > 0 {
				a := rapid.SampledFrom(todo).Draw(t, "action")
				e := plan.Event{Step: a.Step, Occurrence: a.Occurrence,
					What: rapid.SampledFrom([]plan.What{plan.Succeeded, plan.Sent, plan.Rejected}).Draw(t,
						"what")}
				if a.Verb == plan.DecideStep {
					e.What, e.Occurrences = plan.Decided, []string{"x"}
				}
				s, _, _ = p.Advance(s, e, time.Now())
			}
		}
		var m plan.Mapping
		if rapid.Bool().Draw(t, "mapping") {
			for _, step := range newer.Steps {
				if _, old := p.Step(step.Name); !old {
					m.Skip = append(m.Skip, step.Name)
				}
			}
		}
		moved, err := plan.Move(older, newer, m, s)
		if err != nil || s.Status.Final() { // a refused or ended saga does not change
			return
		}
		for _, r := range moved.Runs {
			step, ok := is.Step(r.Step)
			if !ok && r.Phase != plan.Dropped {
				t.Fatalf("%s is lost", r.Step)
			}
			if moved.Status != plan.Running {
				if was, _ := p.Step(r.Step); was.Undo && !step.Undo && r.Phase == plan.IsDone {
					t.Fatalf("the undo of %s is lost", r.Step)
				}
				continue
			}
			for _, before := range step.After {
				if !slices.ContainsFunc(moved.Runs, func(b plan.Run) bool {
					return b.Step == before && (b.Phase == plan.IsDone || b.Phase == plan.Skipped)
				}) {
					t.Fatalf("%s has begun before %s:\n%s", r.Step, before, stateText(moved))
				}
			}
		}
		if _, _, out := is.Advance(moved, plan.Event{What: plan.Tick}, time.Now()); out == plan.Unknown {
			t.Fatal(out)
		}
	})
}

// without returns a graph without some steps. Their successors follow their predecessors.
func without(g plan.Graph, names ...string) plan.Graph {
	for _, name := range names {
		at := slices.IndexFunc(g.Steps, func(s plan.Step) bool { return s.Name == name })
		if at < 0 {
			continue
		}
		gone := g.Steps[at]
		g.Steps = slices.Delete(slices.Clone(g.Steps), at, at+1)
		for i := range g.Steps {
			if n := slices.Index(g.Steps[i].After, name); n >= 0 {
				g.Steps[i].After = append(slices.Delete(slices.Clone(g.Steps[i].After), n, n+1),
					gone.After...)
			}
		}
	}
	return g
}

func TestShapes(t *testing.T) {
	for _, c := range []struct{ was, is, want string }{
		{`{"a":string,"b":number}`, `{"a":string,"b":number}`, "compatible"},
		{`{"a":string}`, `{"a":string,"b":[{"c":number}]}`, "compatible: b is new"},
		{`{"a":string,"b":number}`, `{"a":string}`, "compatible: b is not read any more"},
		{`{"a":string}`, `{"b":string}`, "refused: a was removed and b was added"},
		{`{"a":string}`, `{"a":number}`, "refused: a: string is read as number"},
		{`[{"a":string}]`, `[{"a":number}]`, "refused: a: string"},
		{`{"o":{"a,b":{"x":string},"c":number}}`, `{"o":{"a,b":{"x":bool},"c":number}}`,
			"refused: o: a,b: x: string is read as bool"},
		{`string`, `any`, "compatible"},
	} {
		older, newer := line(t, "a do undo"), line(t, "a do undo")
		older.Shape, newer.Shape = c.was, c.is
		got := fmt.Sprint(plan.Compare(older, newer, plan.Mapping{}))
		class, why, _ := strings.Cut(c.want, ": ")
		if got != "[]" && !strings.Contains(got, class) ||
			!strings.Contains(strings.ReplaceAll(got, `"`, ""), why) {
			t.Errorf("%s as %s: %s, want %s", c.was, c.is, got, c.want)
		}
	}
}

func TestFile(t *testing.T) {
	g := line(t, "hold do undo", "charge call undo pivot", "ship command timeout=1h")
	var b bytes.Buffer
	if err := plan.Write(&b, plan.Written{Hash: g.Hash(), Graph: g,
		Mappings: []plan.Mapping{{From: "x", Skip: []string{"ship"}}}}); err != nil {
		t.Fatal(err)
	}
	f, err := plan.Read(bytes.NewReader(b.Bytes()))
	if err != nil || len(f.Definitions) != 1 || !reflect.DeepEqual(f.Definitions[0].Graph, g) ||
		f.Definitions[0].Mappings[0].Skip[0] != "ship" {
		t.Errorf("%+v %v", f, err)
	}
	for edit, want := range map[string]string{`"format": 1|"format": 2`: "format is 2",
		`"undo": true|"undo": false`: "has no undo", `"charge"|"bill"`: "it comes after",
		`{|`: "read definitions"} {
		from, to, _ := strings.Cut(edit, "|")
		if _, err := plan.Read(strings.NewReader(strings.Replace(b.String(), from, to, 1))); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", edit, err)
		}
	}
}
