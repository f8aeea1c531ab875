package backoff

import (
	"slices"
	"testing"
	"time"
)

func TestRarely(t *testing.T) {
	r := LogLimit{First: 5 * time.Second, Most: time.Minute}
	if r.Over() {
		t.Error("it was spoken of before it began")
	}
	begin := time.Now()
	for range 2 { // the second outage is told as the first was
		var told []int
		for s := range 300 {
			if r.Due(begin.Add(time.Duration(s) * time.Second)) {
				told = append(told, s)
			}
		}
		if want := []int{0, 5, 15, 35, 75, 135, 195, 255}; !slices.Equal(told, want) {
			t.Errorf("it speaks after %v s, want %v", told, want)
		}
		if !r.Over() || r.Over() {
			t.Error("its end is not told once")
		}
		begin = begin.Add(time.Hour)
	}
}
