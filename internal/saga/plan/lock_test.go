package plan

import (
	"encoding/json"
	"testing"
	"time"
)

// TestCompleteOfAChildThatLocks: an operator cannot complete a running child that holds entities. They
// would be free while the child still runs.
func TestCompleteOfAChildThatLocks(t *testing.T) {
	for _, locks := range []bool{true, false} {
		p := New(Graph{Name: "outer", Steps: []Step{{Name: "kid", Kind: Child, Undo: true, Locks: locks}}})
		now := time.Now()
		s, _ := p.Begin("id", now)
		s, _, _ = p.Advance(s, Event{What: Sent, Step: "kid", Memo: json.RawMessage(`{"key":"k"}`)}, now)
		_, _, out := p.Advance(s, Event{What: Complete, Step: "kid"}, now)
		if want := map[bool]Outcome{true: Runs, false: Taken}[locks]; out != want {
			t.Errorf("completed by hand, where it locks: %v: %s", locks, out)
		}
	}
}
