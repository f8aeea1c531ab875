package pgstore

import (
	"fmt"

	"github.com/skald-go/skald/store/pgstore/internal/admin"
)

// Roles are those that Grants knows: who migrates, who writes and consumes, who relays, and who only looks.
func Roles() []string { return admin.Roles() }

// GrantOptions say to whom. The zero value works.
type GrantOptions struct {
	Schema string // where the tables are. Default "public"
	Name   string // of the role in the database, made where it is missing. Default "skald_" and the role
}

// Grants is the SQL that gives a role the rights that it needs and no more, for whoever owns the schema to
// run: that of the migrator before the tables are made, those of the others after each migration. It can run
// twice.
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
