package sqlitestore

import (
	"context"

	"github.com/skald-go/skald/store"
)

var _ store.PayloadSchemas = (*Store)(nil)

// PayloadSchema reads a schema that was kept.
func (s *Store) PayloadSchema(ctx context.Context, registry, id string) (string, error) {
	rows, err := s.query(ctx, "PayloadSchema", registry, id)
	if err != nil {
		return "", failed("read the schema of a payload", err)
	}
	found, err := collect(rows, func(scan func(...any) error) (definition string, err error) {
		err = scan(&definition)
		return definition, err
	})
	if err != nil || len(found) == 0 {
		return "", failedOr("read the schema of a payload", err)
	}
	return found[0], nil
}

// KeepPayloadSchema keeps a schema, unless one is kept under this id.
func (s *Store) KeepPayloadSchema(ctx context.Context, registry, id, definition string) error {
	return failedOr("keep the schema of a payload", s.alone(ctx, func(ctx context.Context, x *session) error {
		_, err := x.exec(ctx, "KeepPayloadSchema", registry, id, definition)
		return err
	}))
}
