package memstore

import (
	"context"

	"github.com/skald-go/skald/store"
)

var _ store.PayloadSchemas = (*Store)(nil)

type schemaKey struct{ registry, id string }

// PayloadSchema returns the stored definition of a schema; "" if there is none.
func (s *Store) PayloadSchema(ctx context.Context, registry, id string) (definition string, err error) {
	err = s.enter(ctx, func() error {
		definition = s.db.schemas[schemaKey{registry, id}]
		return nil
	})
	return definition, err
}

// KeepPayloadSchema stores the definition of a schema, unless the registry already has one for id.
func (s *Store) KeepPayloadSchema(ctx context.Context, registry, id, definition string) error {
	return s.enter(ctx, func() error {
		key := schemaKey{registry, id}
		if _, kept := s.db.schemas[key]; !kept {
			s.db.schemas[key] = definition
		}
		return nil
	})
}
