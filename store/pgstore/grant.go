package pgstore

import (
	"embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

//go:embed role/*.sql
var grants embed.FS

// Roles are those that Grants knows: who migrates, who writes and consumes, who relays, and who only looks.
func Roles() []string { return []string{"migrator", string(store.App), string(store.Relay), "reader"} }

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
	text, err := grantFile(role)
	if err != nil {
		return "", err
	}
	name := o.Name
	if name == "" {
		name = "skald_" + role
	}
	if err := pgrun.Nameable("role", name); err != nil {
		return "", fmt.Errorf("grants: %w", err)
	}
	quoted := pgx.Identifier{name}.Sanitize()
	text = leafGrant().ReplaceAllStringFunc(text, eachLeaf)
	text = makeRole + text
	return strings.NewReplacer("'/*role*/'", column.Quote(quoted), "/*role*/", quoted, "'/*name*/'", column.Quote(name),
		"/*itself*/", strings.TrimSuffix(c.pg.Prefix, "."), "'"+pgrun.Placeholder, "'"+strings.ReplaceAll(c.pg.Prefix, "'", "''"), pgrun.Placeholder, c.pg.Prefix).Replace(text), nil
}

func grantFile(role string) (string, error) {
	text, err := grants.ReadFile("role/" + role + ".sql")
	if err != nil {
		return "", fmt.Errorf("grants: there is no role %q: it is one of %s", role, strings.Join(Roles(), ", "))
	}
	return string(text), nil
}

const makeRole = `DO $role$ BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '/*name*/') THEN
		CREATE ROLE /*role*/ NOLOGIN;
	END IF;
END $role$;
`

// leafGrant finds the statements that are about each leaf of a ring, of which there may be any number.
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

// needs are the grants of a role's file, one for each right, as MissingRight takes them.
type needs struct{ rights, columns, kinds, names []string }

func needsOf(role store.Role) (needs, error) {
	text, err := grantFile(string(role))
	if err != nil {
		return needs{}, err
	}
	var n needs
	statement := regexp.MustCompile(`(?s)GRANT (.*?) ON (SCHEMA |SEQUENCE |FUNCTION |/\*each\*/ )?(?:/\*schema\*/|/\*itself\*/)(\w*) TO /\*role\*/;`)
	right := regexp.MustCompile(`(\w+)(?: \(([^)]*)\))?(?:, |$)`)
	for _, g := range statement.FindAllStringSubmatch(text, -1) {
		kind := strings.TrimSpace(g[2])
		switch kind {
		case "":
			kind = "TABLE"
		case "/*each*/":
			kind = "LEAF"
		}
		for _, r := range right.FindAllStringSubmatch(g[1], -1) {
			n.rights, n.kinds, n.names = append(n.rights, r[1]), append(n.kinds, kind), append(n.names, g[3])
			n.columns = append(n.columns, strings.Join(strings.Fields(r[2]), " "))
		}
	}
	return n, nil
}
