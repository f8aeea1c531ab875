package view

import (
	"testing"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// TestNamed checks that an id in a step and in the outbox is returned once, with the type from the outbox.
func TestNamed(t *testing.T) {
	id := store.Identity{Source: "/order", ID: "m-1"}
	ids, types := identitiesOf([]storyPart{
		{Steps: []operate.SagaStep{{Source: id.Source, ID: id.ID}, {Source: id.Source, ID: id.ID}}},
		{rows: []store.WrittenRow{{Identity: id, Type: "stock.reserve"}}},
	})
	if len(ids) != 1 || ids[0] != id || types[id] != "stock.reserve" {
		t.Errorf("%v, %v", ids, types)
	}
}
