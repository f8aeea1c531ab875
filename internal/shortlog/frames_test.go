package shortlog_test

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/skald-go/skald/internal/shortlog"
)

// A stack without a panic is told from its first frame on.
func TestStackWithoutAPanic(t *testing.T) {
	if frames := shortlog.Frames(debug.Stack()); !strings.HasPrefix(frames[0], "runtime/debug.Stack(") {
		t.Errorf("%q", frames)
	}
	if frames := shortlog.Frames(nil); len(frames) != 0 {
		t.Errorf("%q", frames)
	}
}
