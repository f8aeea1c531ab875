package audit

import "testing"

// Brief names one order and counts the others.
func TestBrief(t *testing.T) {
	t.Parallel()
	for want, wrong := range map[string][]string{
		"all good":                   nil,
		"order A; twice":             {"order A; twice"},
		"order A; twice; and 2 more": {"order A; twice", "order B", "order C"},
	} {
		i := (&findings{checked: 3, wrong: wrong}).verdict("charged_once", "all good")
		if got := i.Brief(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
