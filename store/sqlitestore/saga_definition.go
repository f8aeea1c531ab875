package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// noteDefinitions stores definitions of sagas.
func noteDefinitions(ctx context.Context, x *sqlexec.Session, ds []store.SagaDefinition) error {
	for i := range ds {
		if err := sagarow.CheckDefinition(&ds[i]); err != nil {
			return err
		}
	}
	for _, d := range ds {
		if _, err := x.Exec(ctx, "NoteSagaDefinition", d.Name, d.Hash, d.Written); err != nil {
			return fmt.Errorf("note definitions of sagas: %w", err)
		}
	}
	return nil
}

// Definitions lists definitions of sagas.
func (s *sagaTable) Definitions(ctx context.Context) ([]store.SagaDefinition, error) {
	rows, err := s.run.Query(ctx, "ListSagaDefinitions")
	if err != nil {
		return nil, sqlexec.Failed("list definitions of sagas", err)
	}
	out, err := sqlexec.Collect(rows, func(scan func(...any) error) (d store.SagaDefinition, err error) {
		var at sql.NullInt64
		err = scan(&d.Name, &d.Hash, &d.Number, &d.Written, &at)
		d.Noted = sqlexec.OfMillis(at)
		return d, err
	})
	return out, sqlexec.Failed("list definitions of sagas", err)
}
