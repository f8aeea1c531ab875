package sqlitestore

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/admin"
)

// Maintain empties what is older than it is to be kept, under the lease on the retention if there is an
// owner.
func (s *Store) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
	return s.steward.Maintain(ctx, m)
}

// Examine looks at the file's settings and at its size.
func (s *Store) Examine(ctx context.Context, e store.Exam) ([]skald.Finding, error) {
	return admin.NewDoctor(s.run, s.steward).Examine(ctx, e)
}
