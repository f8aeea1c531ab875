package pgstore

import (
	"fmt"

	"github.com/skald-go/skald/store/pgstore/internal/admin"
)

// Roles returns the roles of Grants: one that migrates, one that writes and consumes, one that relays, and
// one that only reads.
func Roles() []string { return admin.Roles() }

// GrantOptions selects the database role. The zero value works.
type GrantOptions struct {
	Schema string // where the tables are. Default "public"
	Name   string // of the database role, created if missing. Default "skald_" and the role
}

// Grants returns the SQL that gives a role exactly the rights that it needs. The owner of the schema runs
// it: for the migrator before the tables exist, for the others after each migration. It can run repeatedly.
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
