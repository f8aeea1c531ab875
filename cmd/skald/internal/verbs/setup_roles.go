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

const rolesAbout = `Prints the SQL that creates roles in PostgreSQL, each with only the rights that it needs. The command does
not run this SQL.

  migrator  owns the tables: run this part first, then skald migrate as a member of this role
  app       writes and handles messages
  relay     publishes messages and deletes expired rows
  reader    reads

Run the parts of the other roles after each migration. Then grant a role to each service:
GRANT skald_app TO orders_service.`

// Roles returns skald roles.
func Roles(out io.Writer) *cobra.Command {
	var schema string
	var names []string
	t := &cli.Output{Out: out}
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
	f.StringVar(&schema, "schema", "", "PostgreSQL `SCHEMA` of the tables (default: public)")
	f.StringArrayVar(&names, "name", nil,
		"`ROLE=NAME` of a role in the database; repeatable (default: skald_ROLE)")
	return c
}

// roleNames parses the names of the roles that a user gave, and returns them by role.
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

// printRoles prints the SQL of each role. With --json, the SQL is under the name of the role.
func printRoles(t *cli.Output, roles []string, schema string, called map[string]string) error {
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
