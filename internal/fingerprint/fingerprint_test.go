package fingerprint_test

import (
	"testing"

	"github.com/skald-go/skald/internal/fingerprint"
)

func TestOf(t *testing.T) {
	key := []byte("0123456789abcdef")
	seen := map[int64]int{}
	for i, what := range [][][]byte{{}, {nil}, {{}}, {nil, nil}, {[]byte("ab"), []byte("c")},
		{[]byte("a"), []byte("bc")}, {[]byte("abc")}, {[]byte("abc"), nil}, {[]byte("abc"), {}}} {
		n := fingerprint.Of(key, what...)
		if other, twice := seen[n]; twice || n == 0 {
			t.Errorf("%d and %d have the fingerprint %d", i, other, n)
		}
		if seen[n] = i; fingerprint.Of(key, what...) != n ||
			fingerprint.Of([]byte("0123456789abcdeg"), what...) == n {
			t.Errorf("%d: not of payload and key alone", i)
		}
	}
	// A fingerprint is stored: it must stay what it is.
	if got := fingerprint.Of(key, []byte("order.placed"), []byte(`{"id":7}`)); got != golden {
		t.Errorf("the fingerprint is %d, was %d", got, golden)
	}
}

func BenchmarkOf(b *testing.B) {
	key, data := make([]byte, 32), make([]byte, 300)
	for b.Loop() {
		fingerprint.Of(key, []byte("order.placed"), data)
	}
}

const golden = 7382732105232482604
