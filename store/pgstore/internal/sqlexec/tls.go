package sqlexec

import (
	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/endpoint"
)

// Unencrypted returns the hosts that a connection with the settings c may reach without TLS, except loopback.
func Unencrypted(c *pgx.ConnConfig) (hosts []string) {
	seen := map[string]bool{}
	add := func(host string, plain bool) {
		if plain && !seen[host] && !endpoint.IsLoopback(host) {
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
