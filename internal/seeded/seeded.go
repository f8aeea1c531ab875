// Package seeded shows that a test finds a bug. The binary of the test runs that test again, in a process of
// its own, with the bug in it; the test must fail there and say why.
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

// Bug names the bug that this process is to have. Empty: none, as in each ordinary run.
func Bug() string { return os.Getenv(variable) }

// patience is for a bug that makes its test hang.
const patience = 3 * time.Minute

// Find runs test, a pattern as -run takes it, with bug in it. It fails t unless that test fails and prints
// what says matches, lest another error be taken for that of the bug.
func Find(t *testing.T, bug, test, says string) {
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
		t.Errorf("%s passes with the bug %q in it:\n%s", test, bug, out)
	} else if !regexp.MustCompile(says).Match(out) {
		t.Errorf("%s fails with the bug %q in it (%v), and does not say %q:\n%s", test, bug, err, says, out)
	}
}
