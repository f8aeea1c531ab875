// Package sqlexec runs sets of SQL statements as transactions, over a pgx pool or database/sql. If possible,
// a whole transaction is one round trip. The package also adds causes and remedies to errors of PostgreSQL.
package sqlexec

import (
	"cmp"
	"embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/skald-go/skald/internal/sqlfile"
)

//go:embed sql/*.sql
var statements embed.FS

// DB runs the statements of the tables in one schema.
type DB struct {
	Runner         Runner
	Schema         string
	Prefix         string            // before each table: the quoted schema and a dot
	Raw            map[string]string // the statements, with a placeholder for the schema
	SQL            map[string]string // the statements with the schema
	Err            error             // the error of New; every call returns it
	Oldest, Newest int               // the versions of the tables that this build supports
}

// New returns a DB that runs the statements raw on r. loadErr is the error from loading raw. If it is not
// nil, every call of the DB returns it. The schema defaults to "public".
func New(r Runner, schema string, raw map[string]string, loadErr error) *DB {
	own, bad := sqlfile.Load(statements, "sql", Placeholder)
	d := &DB{Runner: r, Schema: cmp.Or(schema, "public"), Raw: own, SQL: map[string]string{}}
	prefix, unfit := schemaPrefix(d.Schema)
	if loadErr = cmp.Or(unfit, loadErr, bad); loadErr != nil {
		d.Err = fmt.Errorf("open store: %w", loadErr)
		return d
	}
	d.Prefix = prefix
	// WalkHere does as Walk, and fails if the shards belong to another database.
	check := Placeholder + "skald_check_identity($1::text), "
	d.Raw["WalkHere"] = strings.ReplaceAll(d.Raw["Walk"], "/*here*/", check)
	if err := Merge(d.Raw, raw); err != nil {
		d.Err = fmt.Errorf("open store: %w", err)
		return d
	}
	for name, text := range d.Raw {
		d.SQL[name] = Qualified(text, prefix)
	}
	return d
}

// Merge adds the statements in others to raw. It returns an error if a name exists already.
func Merge(raw, others map[string]string) error {
	for name, text := range others {
		if raw[name] != "" {
			return fmt.Errorf("statement %s is defined twice", name)
		}
		raw[name] = text
	}
	return nil
}

// Placeholder precedes each table in a .sql file.
const Placeholder = "/*schema*/"

// Qualified replaces Placeholder in text by prefix. It must be the last replacement, because the name of the
// schema may contain text that another replacement would change.
func Qualified(text, prefix string) string {
	return strings.NewReplacer("'"+Placeholder, "'"+strings.ReplaceAll(prefix, "'", "''"), Placeholder,
		prefix).Replace(text)
}

// FirstRows is the name of the first leaf partition of the outbox. Statements use a leaf, because a statement
// on the parent table would lock all leaves until COMMIT.
const FirstRows = "skald_outbox_0"

// RowTexts returns the statements that use FirstRows, changed to use the leaf n.
func (d *DB) RowTexts(n int) map[string]string {
	out := map[string]string{}
	for name, text := range d.Raw {
		if strings.Contains(text, FirstRows) {
			text = strings.ReplaceAll(strings.ReplaceAll(text, FirstRows, RowLeaf(n)), "/*slot*/0",
				strconv.Itoa(n))
			out[name] = Qualified(text, d.Prefix)
		}
	}
	return out
}

// schemaPrefix returns the prefix of each table: the quoted schema and a dot.
func schemaPrefix(schema string) (string, error) {
	return Quoted(schema) + ".", Nameable("schema", schema)
}

// Nameable returns a *NameError if a schema or role cannot have that name. PostgreSQL silently truncates a
// name of more than 63 bytes. A name with two $ could end the body of a function or of a DO block.
func Nameable(what, name string) error {
	if name == "" || len(name) > 63 || !Storable(name) || strings.Count(name, "$") > 1 {
		return &NameError{What: what, Name: name}
	}
	return nil
}

// ShellWord quotes s as one word of a command line, if necessary.
func ShellWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// NameError reports a name that a schema or role cannot have.
type NameError struct{ What, Name string }

func (e *NameError) Error() string {
	return fmt.Sprintf("store: the %s %q cannot have this name: use 1 to 63 bytes of UTF-8 text with at most one $",
		e.What, e.Name)
}

// RowLeaf returns the name of the leaf partition n of the outbox.
func RowLeaf(n int) string { return fmt.Sprintf("skald_outbox_%d", n) }
