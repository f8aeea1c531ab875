package cli

import (
	"fmt"
	"testing"

	"github.com/skald-go/skald/operate"
)

// Each error of operate has the exit code that the help tells.
func TestExitCodeOfVerbs(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		&operate.UsageError{}: exitUsage, &operate.RenameError{}: exitUsage,
		&operate.UnsettledError{}: exitUsage,
		&operate.NoMatchError{}:   exitNone, &operate.UnknownConsumerError{}: exitNone,
		&operate.PartialError{}: exitPartly, &operate.StoppedError{}: exitFailed,
		operate.ErrNothingToRecover: exitState,
	} {
		if code := Code(fmt.Errorf("verb: %w", err)); code != want {
			t.Errorf("%T is %d, want %d", err, code, want)
		}
	}
}
