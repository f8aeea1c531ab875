//go:build !nodemo

package main

import (
	"strings"
	"testing"

	"github.com/skald-go/skald/cmd/skald/internal/demo"
)

// A report without --verbose shows the beginning of the story.
func TestReportsAreShort(t *testing.T) {
	t.Parallel()
	story := strings.Repeat("a line\n", 99)
	r := &demo.Report{Story: append([]string{"order X"}, strings.Split(story, "\n")...)}
	for verbose, want := range map[bool]string{false: "… and 80 lines more: --verbose, or ", true: story} {
		var out strings.Builder
		if err := printReport(&out, r, demo.Options{}, verbose); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("verbose %t: no %q in\n%s", verbose, want, &out)
		}
	}
}
