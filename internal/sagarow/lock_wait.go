package sagarow

import (
	"time"

	"github.com/skald-go/skald/store"
)

// LockWait returns the least store.SagaUpdate.Wait of es, or otherwise if no update has one.
func LockWait(es []store.Effect, otherwise time.Duration) time.Duration {
	wait := otherwise
	for i := range es {
		if u := es[i].Saga; u != nil && u.Wait > 0 {
			wait = min(wait, u.Wait)
		}
	}
	return wait
}
