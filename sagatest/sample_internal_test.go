package sagatest

import "testing"

// TestSampleRotates: each seed selects the same number of schedules, and all seeds together select all of
// them.
func TestSampleRotates(t *testing.T) {
	const total, sample = 97, 10
	taken := map[int]bool{}
	for seed := range uint64(total) {
		s := search{o: Options{Sample: sample, Seed: seed}}
		n := 0
		for i := range total {
			if s.sampled(i, total) {
				taken[i] = true
				n++
			}
		}
		if n != sample {
			t.Errorf("seed %d takes %d of %d, want %d", seed, n, total, sample)
		}
	}
	if len(taken) != total {
		t.Errorf("%d of %d schedules are ever taken", len(taken), total)
	}
}

func TestSeedOfTheEnvironment(t *testing.T) {
	t.Setenv(SeedVariable, "42")
	var o Options
	if err := o.seed(); err != nil || o.Seed != 42 {
		t.Errorf("%d, %v", o.Seed, err)
	}
	t.Setenv(SeedVariable, "x")
	if err := (&Options{}).seed(); err == nil {
		t.Error("a seed that is not a number is accepted")
	}
}
