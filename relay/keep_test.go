package relay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// TestRelayRefusesMarksDeletedBeforeRows checks that a relay does not start if marks are deleted before the
// rows that can repeat their messages.
func TestRelayRefusesMarksDeletedBeforeRows(t *testing.T) {
	for _, keep := range []store.Retention{{Marks: time.Hour}, {Outbox: 31 * 24 * time.Hour}, {Outbox: -1}} {
		var refused *store.RetentionError
		if err := relay.New(memstore.New(nil), membroker.New(nil),
			&relay.Options{Keep: keep}).Run(t.Context()); !errors.As(err, &refused) {
			t.Errorf("with %+v it ends with %v", keep, err)
		}
	}
}
