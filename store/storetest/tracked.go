package storetest

import (
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// tracked checks that each way of writing stores tracked sagas, and that a rollback undoes the writes.
func (s *suite[TTx]) tracked() {
	due := time.UnixMilli(1_700_000_000_123).UTC()
	change := func(rows []store.Tracked, state string) store.Effect {
		rows = slices.Clone(rows)
		for i := range rows {
			rows[i].State, rows[i].Due, rows[i].Body, rows[i].Drift = state, due, "seen "+state, 1
		}
		return store.Effect{Tracked: rows}
	}
	stand := func(want string) {
		s.Helper()
		rows, err := store.ListTracked(s.Context(), s.d, store.TrackedQuery{Flow: "flow", State: want})
		s.ok(err, "list tracked sagas")
		for _, r := range rows {
			if !r.Due.Equal(due) || r.Body != "seen "+want || r.Drift != 1 || r.Drifted.IsZero() {
				s.Errorf("stored is %+v", r)
			}
		}
		if len(rows) != 2 {
			s.Errorf("%d sagas are %s, want 2", len(rows), want)
		}
	}
	tx := s.db.Begin(s)
	rows, err := s.d.LockTracked(s.Context(), tx, "flow", "b", "a")
	s.ok(err, "lock tracked sagas")
	if len(rows) != 2 || rows[0].Body != "" {
		s.Fatalf("new rows are %+v", rows)
	}
	s.ok(s.d.Write(s.Context(), tx, change(rows, "written")), "write")
	s.ok(s.db.Commit(tx), "commit")
	stand("written")

	u := s.begin(s.d, store.Intake{})
	rows, err = s.d.LockTracked(s.Context(), u.Tx(), "flow", "a", "b")
	s.ok(err, "lock tracked sagas in a unit")
	lost := change(rows, "lost")
	lost.Rows = []skald.Message{message("a", 1)}
	s.ok(s.d.Write(s.Context(), u.Tx(), lost), "write in a unit")
	s.rollback(u)
	stand("written")

	u = s.begin(s.d, store.Intake{})
	rows, err = s.d.LockTracked(s.Context(), u.Tx(), "flow", "a", "b")
	s.ok(err, "lock tracked sagas in another unit")
	s.commit(u, change(rows, "committed"))
	stand("committed")
	s.apply(change(rows, "applied"))
	stand("applied")
}
