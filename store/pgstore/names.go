package pgstore

import (
	"fmt"

	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

var _ endpoint.Wire = (*Store)(nil)

// String returns the server, the database and the schema, without secrets.
func (s *Store) String() string {
	at := s.pool.Config().ConnConfig
	return fmt.Sprintf("PostgreSQL at %s:%d, database %s, schema %s", at.Host, at.Port, at.Database,
		s.pg.Schema)
}

// String returns the schema.
func (s *SQLStore) String() string {
	return fmt.Sprintf("PostgreSQL through database/sql, schema %s", s.pg.Schema)
}

// Unencrypted returns the hosts that the pool may connect to without TLS, because sslmode is disable, allow
// or prefer.
func (s *Store) Unencrypted() []string { return sqlexec.Unencrypted(s.pool.Config().ConnConfig) }
