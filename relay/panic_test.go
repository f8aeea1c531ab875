package relay_test

import (
	"context"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/internal/testlog"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/memstore"
)

// broken is a driver that panics.
type broken struct{ *membroker.Broker }

func (broken) Publish(context.Context, []skald.Message, ...broker.Topics) broker.Pending {
	panic("a driver is broken")
}

// A panic in the loop that all topics share is logged before it ends Run.
func TestPanicInTheLoopIsLoggedAndEndsRun(t *testing.T) {
	db := memstore.New(nil)
	tx := db.BeginTx()
	created := skald.Event[string]{Topic: "orders", Type: "created"}
	if err := outbox.New(db, nil).Write(t.Context(), tx, created.New("o-1", "x")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	var log testlog.Log
	r := relay.New(db, broken{membroker.New(nil)}, &relay.Options{Owner: "a", Logger: log.Logger()})
	defer func() {
		if v := recover(); v != "a driver is broken" {
			t.Errorf("Run ended with %v", v)
		}
		if log.Count("level=ERROR", "relay a", "a driver is broken", "frame=0", "Publish") != 1 {
			t.Error(log.String())
		}
	}()
	t.Error(r.Run(t.Context()))
}
