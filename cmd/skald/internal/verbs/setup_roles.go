package verbs

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/store/pgstore"
)

const rolesAbout = `Prints the SQL that makes roles in PostgreSQL and gives each what it needs, and no more; it runs nothing.

  migrator  owns the tables; run its part before skald migrate
  app       writes messages and consumes them
  relay     carries messages to the broker and empties what is old
  reader    reads

  skald roles migrator --schema orders | psql URL
  skald migrate --schema orders                                # as a member of skald_migrator
  skald roles app relay reader --schema orders | psql URL      # after each migration
  psql URL -c 'GRANT skald_app TO orders_service'`

// Roles is skald roles.
func Roles(out io.Writer) *cobra.Command {
	var schema string
	var names []string
	t := &cli.Tidings{Out: out}
	c := &cobra.Command{
		Use: "roles [migrator|app|relay|reader]…", Short: "Print the SQL that gives each role its rights",
		Long: rolesAbout,
		RunE: func(_ *cobra.Command, roles []string) error {
			called, err := roleNames(names)
			if err != nil {
				return err
			}
			if len(roles) == 0 {
				roles = pgstore.Roles()
			}
			return t.End(printRoles(t, roles, schema, called))
		},
	}
	t.Flag(c)
	f := c.Flags()
	f.StringVar(&schema, "schema", "", "where the tables are (default: public)")
	f.StringArrayVar(&names, "name", nil,
		"ROLE=NAME: what a role is called in the database (default: skald_ROLE)")
	return c
}

// roleNames are the names that were given, by role.
func roleNames(given []string) (map[string]string, error) {
	out := map[string]string{}
	for _, one := range given {
		role, name, ok := strings.Cut(one, "=")
		if !ok || name == "" || !slices.Contains(pgstore.Roles(), role) {
			return nil, &cli.UsageError{What: fmt.Sprintf("--name is ROLE=NAME, ROLE one of %s: not %q",
				strings.Join(pgstore.Roles(), ", "), one)}
		}
		out[role] = name
	}
	return out, nil
}

// printRoles prints the SQL of each; with --json it is under the role.
func printRoles(t *cli.Tidings, roles []string, schema string, called map[string]string) error {
	for _, role := range roles {
		text, err := pgstore.Grants(role, &pgstore.GrantOptions{Schema: schema, Name: called[role]})
		if err != nil {
			return &cli.UsageError{What: err.Error()}
		}
		text = fmt.Sprintf("-- %s\nBEGIN;\n%sCOMMIT;\n", role, text)
		if err := t.Say(role, text, text); err != nil {
			return err
		}
	}
	return nil
}
