package demo

import (
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

// What is dead goes again, what nobody can read goes away, what a dead service had in hand is released, and
// the rest only waits.
func TestMending(t *testing.T) {
	dead, why := &store.Death{}, store.Failure{Why: "it fails"}
	foreign := store.Identity{Source: elsewhere, ID: "m"}
	inHand := (claimedMost + claimedLeast) / 2
	for _, c := range []struct {
		name, action string
		p            store.Parked
	}{
		{"dead", "redrive", store.Parked{Dead: dead, Last: why}},
		{"dead, and nobody can read it", "drop", store.Parked{Identity: foreign, Dead: dead}},
		{"nobody can read it", "drop", store.Parked{Identity: foreign, Last: why}},
		{"foreign, and not tried yet", "", store.Parked{Identity: foreign}},
		{"in hand", "release", store.Parked{Due: inHand}},
		{"in hand, behind others", "", store.Parked{Due: inHand, Waiting: true}},
		{"claimed just now", "", store.Parked{Due: claimedMost + time.Second}},
		{"due soon", "", store.Parked{Due: time.Second}},
	} {
		e, some := repairOf(&c.p)
		action := ""
		if e.Audit != nil {
			action = e.Audit.Action
		}
		if action != c.action || some != (c.action != "") {
			t.Errorf("%s: %q, %t; want %q", c.name, action, some, c.action)
		}
		if some && (e.Audit.Author != author || e.Audit.Reason == "" ||
			(e.Finish != nil) != (action == "drop") || (e.Requeue != nil) != (action != "drop")) {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
}
