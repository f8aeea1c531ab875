package column

import (
	"testing"
)

func TestNoCharacterIsCutInTwo(t *testing.T) {
	for most, want := range map[int]string{0: "", 1: "a", 2: "a", 3: "aä", 4: "aäb", 9: "aäb"} {
		if got := Clip("aäb", most); got != want {
			t.Errorf("at most %d bytes: %q, want %q", most, got, want)
		}
	}
}
