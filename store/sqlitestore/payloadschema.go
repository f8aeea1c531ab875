package sqlitestore

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

var _ store.PayloadSchemas = (*Store)(nil)

// PayloadSchema returns the stored definition of a schema; "" if there is none.
func (s *Store) PayloadSchema(ctx context.Context, registry, id string) (string, error) {
	rows, err := s.run.Query(ctx, "PayloadSchema", registry, id)
	if err != nil {
		return "", sqlexec.Failed("read the schema of a payload", err)
	}
	found, err := sqlexec.Collect(rows, func(scan func(...any) error) (definition string, err error) {
		err = scan(&definition)
		return definition, err
	})
	if err != nil || len(found) == 0 {
		return "", sqlexec.Failed("read the schema of a payload", err)
	}
	return found[0], nil
}

// KeepPayloadSchema stores the definition of a schema, unless the registry already has one for id.
func (s *Store) KeepPayloadSchema(ctx context.Context, registry, id, definition string) error {
	return sqlexec.Failed("store the schema of a payload", s.run.Alone(ctx, func(ctx context.Context,
		x *sqlexec.Session) error {
		_, err := x.Exec(ctx, "KeepPayloadSchema", registry, id, definition)
		return err
	}))
}
