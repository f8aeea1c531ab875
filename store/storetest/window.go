package storetest

import (
	"slices"

	"github.com/skald-go/skald/store"
)

// window pulls all of a window, in pages.
func (s *suite[TTx]) window(w store.Window, limit int) (all []store.Row) {
	s.Helper()
	for {
		page, err := s.d.Pull(s.Context(), w, limit)
		s.ok(err, "pull")
		if len(page.Rows) > limit || len(page.Rows) == 0 && !page.Done {
			s.Fatalf("a page of at most %d has %d rows, done is %v", limit, len(page.Rows), page.Done)
		}
		for _, r := range page.Rows {
			if r.Seq <= w.After {
				s.Fatalf("row %d comes after %d", r.Seq, w.After)
			}
			w.After = r.Seq
		}
		all = append(all, page.Rows...)
		if page.Done {
			return all
		}
	}
}

func (s *suite[TTx]) tick(base string) string {
	s.Helper()
	tip, err := s.d.Tick(s.Context(), base)
	s.ok(err, "tick")
	return tip
}

// since is the window from base to now.
func (s *suite[TTx]) since(base string) (tip string, all []store.Row) {
	s.Helper()
	if tip = s.tick(base); tip == base {
		return tip, nil
	}
	return tip, s.window(store.Window{Base: base, Tip: tip}, 1000)
}

// all is the whole outbox.
func (s *suite[TTx]) all() []store.Row {
	s.Helper()
	_, all := s.since("")
	return all
}

func (s *suite[TTx]) wantIDs(got []store.Row, want ...string) {
	s.Helper()
	var ids []string
	for _, r := range got {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(ids, want) {
		s.Fatalf("the rows are %v, want %v", ids, want)
	}
}
