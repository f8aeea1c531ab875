package inbox

import (
	"testing"

	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store/memstore"
)

// Messages that no worker has begun when the inbox stops are left, as the messages at the broker.
func TestStopLeavesWaitingMessages(t *testing.T) {
	begun, waits := &partition.Entry{}, &partition.Entry{}
	l := &loop[*memstore.Tx]{jobs: make(chan []*partition.Entry, 2), running: 3,
		hands: map[*partition.Entry]hand{begun: {}}}
	for _, e := range []*partition.Entry{waits, {}} {
		l.hands[e] = hand{}
		l.jobs <- []*partition.Entry{e}
	}
	l.takeBackJobs()
	_, still := l.hands[begun]
	if l.running != 1 || len(l.hands) != 1 || !still || len(l.jobs) != 0 {
		t.Errorf("%d are running (%v), and %d wait", l.running, l.hands, len(l.jobs))
	}
}
