// The files rights*.go read the rights of each role from role/*.sql, and return the SQL that grants them.

package admin

import (
	"embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

//go:embed role/*.sql
var grants embed.FS

// Roles returns the roles that Grants accepts.
func Roles() []string { return []string{"migrator", string(store.App), string(store.Relay), "reader"} }

// Grants returns the SQL that creates a database role and grants it the rights of role in the schema of pg.
// name is the name of the database role; "" means "skald_" and the role.
func Grants(pg *sqlexec.DB, role, name string) (string, error) {
	text, err := grantFile(role)
	if err != nil {
		return "", err
	}
	if name == "" {
		name = "skald_" + role
	}
	if err := sqlexec.Nameable("role", name); err != nil {
		return "", fmt.Errorf("grants: %w", err)
	}
	quoted := sqlexec.Quoted(name)
	text = makeRole + leafGrant().ReplaceAllStringFunc(text, eachLeaf)
	return strings.NewReplacer("'/*role*/'", sqlexec.Quote(quoted), "/*role*/", quoted, "'/*name*/'",
		sqlexec.Quote(name),
		"/*itself*/", strings.TrimSuffix(pg.Prefix, "."),
		"'"+sqlexec.Placeholder, "'"+strings.ReplaceAll(pg.Prefix, "'", "''"), sqlexec.Placeholder,
		pg.Prefix).Replace(text), nil
}

func grantFile(role string) (string, error) {
	text, err := grants.ReadFile("role/" + role + ".sql")
	if err != nil {
		return "", fmt.Errorf("grants: there is no role %q: it is one of %s", role,
			strings.Join(Roles(), ", "))
	}
	return string(text), nil
}

const makeRole = `DO $role$ BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '/*name*/') THEN
		CREATE ROLE /*role*/ NOLOGIN;
	END IF;
END $role$;
`

// leafGrant matches the GRANT statements that apply to each leaf partition of a table. eachLeaf turns them
// into a loop, because the number of leaves can vary.
func leafGrant() *regexp.Regexp {
	return regexp.MustCompile(`GRANT ([^;]*) ON /\*each\*/ /\*schema\*/(\w+) TO /\*role\*/;`)
}

func eachLeaf(grant string) string {
	part := leafGrant().FindStringSubmatch(grant)
	return `DO $each$ DECLARE leaf regclass; BEGIN
	FOR leaf IN SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = '/*schema*/` + part[2] + `'::regclass ORDER BY 1 LOOP
		EXECUTE format('GRANT ` + part[1] + ` ON %s TO %s', leaf, '/*role*/');
	END LOOP;
END $each$;`
}
