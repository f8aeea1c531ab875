package engine

import (
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// Move writes the state as it is to be. Mine: session has the saga; else whoever has it is to look again.
func (s *saga) Move(session string) (m store.SagaMove, mine bool, err error) {
	now := s.clock.Now()
	if m, err = sagarow.MoveTo(s.Row, s.State, now); err != nil {
		return m, false, err
	}
	m.Hash = s.hash
	if s.Row.Session != session {
		return sagarow.Released(m, s.State, now, true), false, nil
	}
	return m, true, nil
}

// GivenBack is m with the lease given back.
func (s *saga) GivenBack(m store.SagaMove) store.SagaMove {
	m = sagarow.Released(m, s.State, s.clock.Now(), len(s.Pending()) > 0)
	m.Lease = 0
	return m
}

// Effect is m with the commands that were thought.
func (s *saga) Effect(m *store.SagaMove) store.Effect { return store.Effect{Saga: m, Rows: s.rows} }

// Wrote notes that m stands. It returns how the saga stood before, and what is to be told.
func (s *saga) Wrote(m *store.SagaMove) (was plan.State, told []plan.Action) {
	s.Row.Version, s.Row.State, s.Row.Standing = m.Version+1, m.State, m.Standing
	if m.Hash != "" {
		s.Row.Hash = m.Hash
	}
	was, told = s.was, s.told
	s.was, s.dirty, s.hash, s.rows, s.family, s.thought, s.told = s.State, false, "", nil, nil, nil, nil
	return was, told
}
