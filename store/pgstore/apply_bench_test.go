package pgstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/skald-go/skald/store"
)

// BenchmarkApply measures effects that are applied in one call. Commits take most of the time.
func BenchmarkApply(b *testing.B) {
	bed := newBed(b)
	s := bed.store(b)
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			at := 0
			for b.Loop() {
				es := make([]store.Effect, n)
				for i := range es {
					at++
					es[i].Mark = &store.Mark{Consumer: "c",
						Identity: store.Identity{Source: fmt.Sprint("/", n), ID: fmt.Sprint(at)},
						Outcome:  store.Done}
				}
				if _, err := s.Apply(context.Background(), es...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
