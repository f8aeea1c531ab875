// Package seeded checks that a test finds a bug. It runs the test in another process of the same test binary,
// with the bug switched on. There the test must fail with the expected message.
package seeded

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"
)

const variable = "SKALD_SEEDED_BUG"

// Bug returns the name of the bug that this process must have. It is "" in an ordinary run.
func Bug() string { return os.Getenv(variable) }

// patience limits the time of a test, because a bug may make it hang.
const patience = 3 * time.Minute

// Find runs a test with the bug switched on. The argument test is a pattern for -test.run. Find reports an
// error unless the test fails and its output matches the pattern want. So an unrelated failure does not
// count.
func Find(t *testing.T, bug, test, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", test, "-test.count=1", "-test.failfast")
	cmd.Env = append(os.Environ(), variable+"="+bug)
	out, err := cmd.CombinedOutput()
	if len(out) > 16<<10 {
		out = out[len(out)-16<<10:]
	}
	if err == nil {
		t.Errorf("%s passes with the bug %q:\n%s", test, bug, out)
	} else if !regexp.MustCompile(want).Match(out) {
		t.Errorf("%s fails with the bug %q (%v), but does not print %q:\n%s", test, bug, err, want, out)
	}
}
