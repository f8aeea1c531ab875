package inbox

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// book is an audit that sends each entry to the test.
type book chan store.Audit

func (b book) Apply(_ context.Context, es ...store.Effect) ([]bool, error) {
	b <- *es[0].Audit
	return []bool{true}, nil
}

// The inbox writes missed messages to the log and to the audit, even if the context of the caller has ended.
func TestMissedIsNoted(t *testing.T) {
	var log strings.Builder
	notes := make(book, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	noteMissed(ctx, notes, slog.New(slog.NewTextHandler(&log, nil)), "stock",
		broker.Missed{Partition: "orders/0", From: 10, To: 100, Count: 90})
	note := <-notes
	if note.Consumer != "stock" || note.Action != missedAction ||
		!strings.Contains(note.Reason, "90 messages of partition orders/0") {
		t.Errorf("noted is %+v", note)
	}
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "messages=90") {
		t.Errorf("the log has %s", &log)
	}
}
