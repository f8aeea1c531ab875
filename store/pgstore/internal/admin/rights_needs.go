package admin

import (
	"regexp"
	"strings"

	"github.com/skald-go/skald/store"
)

// needs has the rights in the file of a role, as arguments of the statement MissingRight.
type needs struct{ Rights, Columns, Kinds, Names []string }

// Of reads the rights that a role needs from the file of the role.
func Of(role store.Role) (needs, error) {
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
			n.Rights, n.Kinds, n.Names = append(n.Rights, r[1]), append(n.Kinds, kind), append(n.Names, g[3])
			n.Columns = append(n.Columns, strings.Join(strings.Fields(r[2]), " "))
		}
	}
	return n, nil
}
