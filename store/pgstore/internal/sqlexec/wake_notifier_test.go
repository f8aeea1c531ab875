package sqlexec

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestNotifyOfManyWrites checks that a burst of writes sends few notifications, and one after the last
// write.
func TestNotifyOfManyWrites(t *testing.T) { synctest.Test(t, manyWrites) }

func manyWrites(t *testing.T) {
	sent := make(chan struct{}, 1000)
	n := &notifier{send: func(context.Context) { sent <- struct{}{} }}
	for range 10_000 {
		n.schedule()
	}
	<-sent // the first
	n.schedule()
	<-sent // one after the burst
	if more := len(sent); more > 5 {
		t.Errorf("%d more", more)
	}
}
