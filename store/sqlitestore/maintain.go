package sqlitestore

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/admin"
)

// Maintain deletes expired rows. If m has an owner, Maintain first takes the retention lease, so that only
// one process deletes.
func (s *Store) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
	return s.steward.Maintain(ctx, m)
}

// Examine checks the settings of the file, its retention and its size.
func (s *Store) Examine(ctx context.Context, e store.Exam) ([]skald.Finding, error) {
	return admin.NewDoctor(s.run, s.steward).Examine(ctx, e)
}
