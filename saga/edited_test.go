package saga_test

import (
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// TestEditedCommandAndReply: a command or a reply that became a dead letter and was edited still counts for
// its saga.
func TestEditedCommandAndReply(t *testing.T) {
	k := newDesk(t, memstore.New(nil))
	commands := k.begin(order{ID: "o", Lines: []string{"tea"}})
	if len(commands) != 1 {
		t.Fatalf("%d commands", len(commands))
	}
	command := mended(t, mended(t, commands[0]))
	if command.ID == commands[0].ID || command.CorrelationID != commands[0].CorrelationID {
		t.Fatalf("the command %+v became %+v", commands[0], command)
	}
	reply := k.reply(command, "packed", "o")
	k.take(mended(t, reply))
	k.expect(map[string]int64{"taken": 1})
	if pays := k.goOn(); len(pays) != 1 || pays[0].Type != "pay" {
		t.Errorf("the next commands: %v", pays)
	}
}

// mended returns the dead letter m with an edited payload.
func mended(t *testing.T, m skald.Message) skald.Message {
	t.Helper()
	db := memstore.New(nil)
	letter := store.Parked{Consumer: "c", Identity: store.Identity{Source: m.Source, ID: m.ID}, Message: m,
		Attempts: 1, Dead: &store.Death{Kind: "malformed", Fingerprint: "0123456789ab"}}
	if _, err := db.Apply(t.Context(), store.Effect{Park: &store.Park{Parked: letter}}); err != nil {
		t.Fatal(err)
	}
	if _, err := operate.Edit(t.Context(), db, operate.Selection{ID: m.ID}, m.Data,
		operate.Order{Author: "ann", Reason: "a repair"}); err != nil {
		t.Fatal(err)
	}
	for p, err := range operate.List(t.Context(), db, operate.Selection{}, false) {
		if err != nil {
			t.Fatal(err)
		}
		return p.Message
	}
	t.Fatal("there is no edited message")
	return m
}
