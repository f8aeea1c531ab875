package pgstore

import (
	"fmt"

	"github.com/skald-go/skald/store/pgstore/internal/admin"
)

// Roles returns the roles that Grants accepts: one migrates, one writes and consumes, one relays, and one
// only reads.
func Roles() []string { return admin.Roles() }

// GrantOptions selects the database role. The zero value works.
type GrantOptions struct {
	Schema string // where the tables are. Default "public"
	Name   string // of the database role, created if missing. Default "skald_" and the role
}

// Grants returns SQL that gives a role exactly the rights that it needs. The owner of the schema must run
// that SQL: before the tables exist for the migrator, and after each migration for the other roles. The SQL
// can run repeatedly. Grants returns an error for an unknown role or an impossible name.
func Grants(role string, o *GrantOptions) (string, error) {
	if o == nil {
		o = &GrantOptions{}
	}
	c := newCore(nil, &Options{Schema: o.Schema})
	if c.pg.Err != nil {
		return "", fmt.Errorf("grants: %w", c.pg.Err)
	}
	return admin.Grants(c.pg, role, o.Name)
}
