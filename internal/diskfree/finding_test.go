package diskfree

import (
	"testing"

	"github.com/skald-go/skald"
)

// What is free is judged by its share of the disk, and by its size where the disk is large.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		free, all uint64 // MiB
		want      skald.Grade
	}{
		{1023, 2048, skald.Failed}, {1024, 8192, skald.Fine}, {1024, 16384, skald.Doubtful},
		{4 << 10, 100 << 10, skald.Failed},
		{6 << 10, 100 << 10, skald.Doubtful}, {11 << 10, 100 << 10, skald.Fine},
		{9 << 10, 4 << 20, skald.Failed}, {11 << 10, 4 << 20, skald.Doubtful},
	} {
		if f := judge(c.free<<20, c.all<<20); f.Grade != c.want ||
			(f.Remedy == "") != (c.want == skald.Fine) {
			t.Errorf("%d of %d MiB: %+v, want %v", c.free, c.all, f, c.want)
		}
	}
}
