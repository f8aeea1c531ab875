package storetest

import (
	"time"

	"github.com/skald-go/skald/store"
)

func renameTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Moves":   (*suite[TTx]).renameMoves,
		"Refuses": (*suite[TTx]).renameRefuses,
	}
}

// wantRename requests the rename. It fails the test unless Done of the result equals want.
func (s *suite[TTx]) wantRename(r store.Rename, want bool) store.Renamed {
	s.Helper()
	out, err := s.d.Rename(s.Context(), r)
	s.ok(err, "rename")
	if out.Done != want {
		s.Errorf("the rename is done: %v, want %v; it found %+v", out.Done, want, out)
	}
	return out
}

// renameMoves checks that all rows of a consumer move unchanged to the other name, and that a third
// consumer keeps its rows.
func (s *suite[TTx]) renameMoves() {
	const next = "stock-2"
	note := &store.Audit{Author: "ann", Reason: "a new name", Action: "rename", Consumer: next}
	m, other := mark(), mark()
	m.Code, m.Result = 201, "answered"
	other.Consumer = "mail"
	dead := parked("b", 2)
	dead.Dead = &store.Death{Kind: "attempts"}
	apart := quarantined(message("c", 3), store.Conflict)
	s.apply(append(keeping(parked("a", 1), dead), store.Effect{Mark: &m}, store.Effect{Mark: &other},
		store.Effect{Quarantine: &apart})...)
	s.step(taking("a"), store.StepAbsent)
	placed := store.Kind{Topic: "orders", Type: "placed"}
	partition := store.Checkpoint{Partition: "orders/0", Origin: "o", Position: 7, InFlightEnd: 9}
	control := store.Checkpoint{Partition: "skald:control:pause", Origin: "{}"}
	s.occupy("", "1", partition, control)
	_, err := s.d.SyncConsumer(s.Context(), store.SyncRequest{Consumer: next, Take: true, Session: "", Stamp: "2",
		Checkpoints: []store.Checkpoint{{Partition: "orders/0", Origin: "o"},
			{Partition: "orders/1", Origin: "o"}}})
	s.ok(err, "occupy as the other one, who only looked")
	s.noteKinds(consumer, 0, []store.Kind{placed})
	s.noteKinds(next, 0, []store.Kind{placed})

	want := store.ConsumerRows{Marks: 1, Positions: 1, Controls: 1, Parked: 1, Dead: 1, Quarantined: 1,
		Steps: 1, Types: 1}
	is := func(got store.ConsumerRows, want store.ConsumerRows) {
		s.Helper()
		if got.LastHeartbeat < 0 || got.LastHeartbeat > time.Hour {
			s.Errorf("its last heartbeat was %v ago", got.LastHeartbeat)
		}
		if got.LastHeartbeat = want.LastHeartbeat; got != want {
			s.Errorf("kept are %+v, want %+v", got, want)
		}
	}
	found := s.wantRename(store.Rename{Old: consumer, New: next}, false)
	is(found.Old, want)
	is(found.New, store.ConsumerRows{Positions: 2, Types: 1})
	s.wantRename(store.Rename{Old: consumer, New: next, Quiet: time.Hour, Audit: note}, false)
	s.wantRename(store.Rename{Old: consumer, New: next, Audit: note}, true)

	after := s.wantRename(store.Rename{Old: consumer, New: next}, false)
	want.Positions = 2
	is(after.New, want)
	if after.Old != (store.ConsumerRows{LastHeartbeat: -1}) {
		s.Errorf("of the old name there is %+v", after.Old)
	}
	m.Consumer = next
	s.verdict(m, store.Verdict{Outcome: store.Done, Code: 201, Result: "answered"})
	s.seen(other, store.Done)
	checkpoints, err := s.d.SyncConsumer(s.Context(), store.SyncRequest{Consumer: next})
	s.ok(err, "read checkpoints")
	partition.Stamp, control.Stamp = "1", "1"
	s.wantCheckpoints(checkpoints, partition, store.Checkpoint{Partition: "orders/1", Origin: "o", Stamp: "2"},
		control)
	if kept := s.inQuarantine(store.QuarantineQuery{Consumer: next}); len(kept) != 1 {
		s.Errorf("in quarantine are %+v", kept)
	}
	if n := s.db.Count(s).Audits; n != 1 {
		s.Errorf("there are %d audits", n)
	}
	s.wantRename(store.Rename{Old: consumer, New: "stock-3", Audit: note}, false) // there are no rows left
}

// renameRefuses checks that a consumer with any activity is not a valid target.
func (s *suite[TTx]) renameRefuses() {
	note := &store.Audit{Author: "ann", Reason: "a new name", Action: "rename", Consumer: "done"}
	m, step, p := mark(), taking("a"), parked("a", 1)
	s.apply(store.Effect{Mark: &m})
	m.Consumer, step.Consumer, p.Consumer = "done", "stepped", "parked"
	apart := quarantined(message("c", 3), store.Conflict)
	apart.Consumer = "apart"
	s.apply(append(keeping(p), store.Effect{Mark: &m}, store.Effect{Quarantine: &apart})...)
	s.step(step, store.StepAbsent)
	_, err := s.d.SyncConsumer(s.Context(), store.SyncRequest{Consumer: "told", Take: true, Session: "", Stamp: "1",
		Checkpoints: []store.Checkpoint{{Partition: "skald:control:pause", Origin: "{}"}}})
	s.ok(err, "tell")
	for _, next := range []string{"done", "stepped", "parked", "apart", "told"} {
		s.wantRename(store.Rename{Old: consumer, New: next, Audit: note}, false)
	}
	m.Consumer = consumer
	s.seen(m, store.Done)
	if n := s.db.Count(s).Audits; n != 0 {
		s.Errorf("there are %d audits", n)
	}

	_, err = s.d.SyncConsumer(s.Context(), store.SyncRequest{Consumer: consumer, Take: true, Session: "a life",
		Stamp: "1", Checkpoints: []store.Checkpoint{{Partition: "orders/0", Origin: "o"}}})
	s.ok(err, "occupy")
	// it has not released its partition
	s.wantRename(store.Rename{Old: consumer, New: "free", Quiet: time.Hour, Audit: note}, false)
	s.wantRename(store.Rename{Old: consumer, New: "free", Audit: note}, true)
}
