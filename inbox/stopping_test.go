package inbox_test

import (
	"context"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/testlog"
)

// A consumer that stops logs the handler that it waits for, and the longest wait. It also logs when it has
// stopped.
func TestStoppingNamesWhatItWaitsFor(t *testing.T) {
	w := newWorld(t, 1)
	begun, goOn := make(chan struct{}), make(chan struct{})
	log := &testlog.Log{}
	in := w.inbox(&inbox.Options{Logger: log.Logger()},
		func(context.Context, tx, skald.Received[string]) error {
			close(begun)
			<-goOn
			return nil
		})
	m := w.message("a", "1")
	w.publish(m)
	stop := run(t, in)
	<-begun
	done := make(chan error)
	go func() { done <- stop() }()
	until(t, "it says what it waits for",
		func() bool { return strings.Contains(log.String(), "inbox: stopping") })
	if s := log.String(); !strings.Contains(s, m.ID) || strings.Contains(s, "inbox: stopped") {
		t.Errorf("the log has %s", s)
	}
	close(goOn)
	if err := <-done; err != nil || !strings.Contains(log.String(), "inbox: stopped") {
		t.Errorf("%v; the log has %s", err, log.String())
	}
}
