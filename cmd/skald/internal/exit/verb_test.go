package exit_test

import (
	"fmt"
	"testing"

	"github.com/skald-go/skald/cmd/skald/internal/exit"
	"github.com/skald-go/skald/operate"
)

// Each error of operate has the exit code that the help tells.
func TestExitCodeOfVerbs(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		&operate.UsageError{}: exit.Usage, &operate.RenameError{}: exit.Usage,
		&operate.UnsettledError{}: exit.Usage,
		&operate.NoneError{}:      exit.None, &operate.UnknownConsumerError{}: exit.None,
		&operate.PartlyError{}: exit.Partly, &operate.StoppedError{}: exit.Failed,
		operate.ErrUnmoved: exit.State,
	} {
		if code := exit.Code(fmt.Errorf("verb: %w", err)); code != want {
			t.Errorf("%T is %d, want %d", err, code, want)
		}
	}
}
