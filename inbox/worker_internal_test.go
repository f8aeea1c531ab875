package inbox

import (
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// TestStopReleasesWaitingClaims: when the inbox stops, it takes back the jobs that no worker has begun, and
// releases the claims of their messages.
func TestStopReleasesWaitingClaims(t *testing.T) {
	db := memstore.New(nil)
	in := New(db, membroker.New(nil), "stock", nil)
	for _, key := range []string{"a", "b"} {
		m := skald.Message{ID: key, Source: "/other", Type: "said", Topic: "orders", Key: []byte(key)}
		stored, err := db.Apply(t.Context(), store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: "stock",
			Identity: store.Identity{Source: m.Source, ID: m.ID}, Message: m}}})
		if err != nil || !stored[0] {
			t.Fatal(stored, err)
		}
	}
	claim := store.ClaimRequest{Consumer: "stock", Session: "life", ClaimSize: store.ClaimSize{Keys: 10},
		Lease: time.Hour}
	claimed, err := db.Claim(t.Context(), claim)
	if err != nil || len(claimed.Parked) != 2 {
		t.Fatal(claimed, err)
	}
	l := &loop[*memstore.Tx]{in: in, jobs: make(chan []*partition.Entry, 1), running: 2,
		assigned: map[*partition.Entry]assignment{}}
	var es []*partition.Entry
	for i := range claimed.Parked {
		c := in.parked.claim(&claimed.Parked[i], time.Now())
		es = append(es, c.Queue[0])
		l.assigned[c.Queue[0]] = assignment{claimed: true}
	}
	in.schedule.Clear() // a worker has begun the first, and the second waits for a worker
	l.jobs <- es[1:]
	l.takeBackJobs()
	if _, still := l.assigned[es[0]]; l.running != 1 || len(l.assigned) != 1 || !still || len(l.jobs) != 0 {
		t.Errorf("%d are running (%v), and %d wait", l.running, l.assigned, len(l.jobs))
	}
	in.handBack(t.Context())
	again, err := db.Claim(t.Context(), claim)
	if err != nil || len(again.Parked) != 1 || again.Parked[0].ID != "b" {
		t.Errorf("then %+v are due: %v", again.Parked, err)
	}
}
