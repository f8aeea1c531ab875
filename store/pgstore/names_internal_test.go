package pgstore

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// TestUnencryptedHosts checks that a host of this machine may be reached without TLS, and another one only
// if sslmode requires TLS.
func TestUnencryptedHosts(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][]string{
		"postgres://u:p@db.example/d":                      {"db.example"}, // prefer
		"postgres://u:p@db.example/d?sslmode=disable":      {"db.example"},
		"postgres://u:p@db.example/d?sslmode=allow":        {"db.example"},
		"postgres://u:p@db.example/d?sslmode=require":      nil,
		"postgres://u:p@db.example/d?sslmode=verify-full":  nil,
		"postgres://u:p@localhost/d?sslmode=disable":       nil,
		"postgres://u:p@127.0.0.1:7/d?sslmode=disable":     nil,
		"postgres://u:p@[::1]:7/d":                         nil,
		"postgres:///d?host=/run/postgresql":               nil,
		"postgres://u:p@localhost,a.example,b.example:7/d": {"a.example", "b.example"},
	} {
		c, err := pgx.ParseConfig(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := sqlexec.Unencrypted(c); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", url, got, want)
		}
	}
}
