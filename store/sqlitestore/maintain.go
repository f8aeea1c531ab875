package sqlitestore

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/admin"
)

// Maintain deletes expired rows. With an owner, it first takes the retention lease.
func (s *Store) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
	return s.steward.Maintain(ctx, m)
}

// Examine checks the file's settings and its size.
func (s *Store) Examine(ctx context.Context, e store.Exam) ([]skald.Finding, error) {
	return admin.NewDoctor(s.run, s.steward).Examine(ctx, e)
}
