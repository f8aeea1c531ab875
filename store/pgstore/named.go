package pgstore

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/startup"
)

var _ startup.Wire = (*Store)(nil)

// String names the server, the database and the schema, and nothing that is secret.
func (s *Store) String() string {
	at := s.pool.Config().ConnConfig
	return fmt.Sprintf("PostgreSQL at %s:%d, database %s, schema %s", at.Host, at.Port, at.Database, s.pg.Schema)
}

// String names the schema.
func (s *SQLStore) String() string {
	return fmt.Sprintf("PostgreSQL through database/sql, schema %s", s.pg.Schema)
}

// Unencrypted names the hosts that the pool may speak to without TLS: sslmode is disable, allow or prefer.
func (s *Store) Unencrypted() []string { return unencrypted(s.pool.Config().ConnConfig) }

func unencrypted(c *pgx.ConnConfig) (hosts []string) {
	seen := map[string]bool{}
	add := func(host string, plain bool) {
		if plain && !seen[host] && !startup.Loopback(host) {
			seen[host] = true
			hosts = append(hosts, host)
		}
	}
	add(c.Host, c.TLSConfig == nil)
	for _, f := range c.Fallbacks {
		add(f.Host, f.TLSConfig == nil)
	}
	return hosts
}
