package inbox

import (
	"context"

	"github.com/skald-go/skald/inbox/internal/exec"
)

// Fence is the fencing token of an entity that Options.Transaction.Entities names: the version that the
// handler's transaction gives it, which only grows. 0: the entity is not locked. Write it with your rows;
// who works on after the commit then writes only WHERE it is still the same, and so finds out that it was
// overtaken. A transaction that is rolled back leaves its token to the next: show it to others only once it
// is committed.
func Fence(ctx context.Context, space, key string) int64 {
	return exec.Fence(ctx, space, key)
}
