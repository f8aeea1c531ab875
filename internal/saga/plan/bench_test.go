package plan_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
)

// BenchmarkThreeSteps runs one saga of three steps, with its states as JSON, as an engine does.
func BenchmarkThreeSteps(b *testing.B) {
	p := plan.New(plan.Graph{Name: "three", Steps: []plan.Step{
		{Name: "a", Kind: plan.Do, Undo: true}, {Name: "b", Kind: plan.Do, Undo: true, After: []string{"a"}},
		{Name: "c", Kind: plan.Do, Undo: true, After: []string{"b"}},
	}})
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		s, _ := p.Begin("id", now)
		for _, step := range []string{"a", "b", "c"} {
			s, _, _ = p.Advance(s, plan.Event{What: plan.Succeeded, Step: step,
				Output: json.RawMessage(`{"n":1}`)}, now)
			if _, err := json.Marshal(s); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkWide applies one reply to a step with many occurrences.
func BenchmarkWide(b *testing.B) {
	for _, n := range []int{100, 5_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := plan.New(plan.Graph{Name: "wide",
				Steps: []plan.Step{{Name: "a", Kind: plan.Do, Undo: true, Each: true}}})
			now := time.Now()
			s, _ := p.Begin("id", now)
			all := make([]string, n)
			for i := range all {
				all[i] = fmt.Sprint(i)
			}
			s, _, _ = p.Advance(s, plan.Event{What: plan.Decided, Step: "a", Occurrences: all}, now)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, out := p.Advance(s, plan.Event{What: plan.Succeeded, Step: "a", Occurrence: "50"},
					now); out != plan.Taken {
					b.Fatal(out)
				}
			}
		})
	}
}
