// This file runs statements: each set of them as one transaction, in one round trip where that can be,
// over a pool of pgx or over database/sql. It says what PostgreSQL's errors mean.

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

// A DB runs the statements of the tables in one schema.
type DB struct {
	Runner         Runner
	Schema         string
	Prefix         string            // of each table: the quoted schema and a dot
	Raw            map[string]string // the statements, with a placeholder for the schema
	SQL            map[string]string // and with the schema
	Err            error             // of New, answered by every call
	Oldest, Newest int               // versions of the tables that this build works with
}

// New runs the statements raw by r. err is the error of reading them, if there was one: then each call
// answers it. The schema is "public" by default.
func New(r Runner, schema string, raw map[string]string, err error) *DB {
	own, bad := sqlfile.Load(statements, "sql", Placeholder)
	d := &DB{Runner: r, Schema: cmp.Or(schema, "public"), Raw: own, SQL: map[string]string{}}
	prefix, unfit := schemaPrefix(d.Schema)
	if err = cmp.Or(unfit, err, bad); err != nil {
		d.Err = fmt.Errorf("open store: %w", err)
		return d
	}
	d.Prefix = prefix
	// Walk that raises where the database is not the one that its shards speak of
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

// Merge adds the statements more to raw. Each name is there once, whichever package has it.
func Merge(raw, more map[string]string) error {
	for name, text := range more {
		if raw[name] != "" {
			return fmt.Errorf("statement %s is there twice", name)
		}
		raw[name] = text
	}
	return nil
}

// Placeholder stands before each table in a .sql file.
const Placeholder = "/*schema*/"

// Qualified puts prefix before each table: last of all, since the schema may be named like anything in the
// text.
func Qualified(text, prefix string) string {
	return strings.NewReplacer("'"+Placeholder, "'"+strings.ReplaceAll(prefix, "'", "''"), Placeholder,
		prefix).Replace(text)
}

// FirstRows is the first leaf of the outbox. Statements name a leaf: one through the parent would lock all
// leaves until COMMIT.
const FirstRows = "skald_outbox_0"

// RowTexts are the statements that name a leaf of the outbox, for the leaf n.
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

// schemaPrefix is what stands before each table: the quoted schema and a dot.
func schemaPrefix(schema string) (string, error) {
	return Quoted(schema) + ".", Nameable("schema", schema)
}

// Nameable tells whether a schema or role can have that name. A longer one PostgreSQL cuts without a word;
// with two $ in it it could end the body of a function or of a DO.
func Nameable(what, name string) error {
	if name == "" || len(name) > 63 || !Storable(name) || strings.Count(name, "$") > 1 {
		return &NameError{What: what, Name: name}
	}
	return nil
}

// ShellWord is s as a word of a command line.
func ShellWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// A NameError says that a schema or role cannot have that name.
type NameError struct{ What, Name string }

func (e *NameError) Error() string {
	return fmt.Sprintf("store: the %s %q cannot be: its name is 1 to 63 bytes of text with one $ at most",
		e.What, e.Name)
}

// RowLeaf is the name of the leaf n of the outbox.
func RowLeaf(n int) string { return fmt.Sprintf("skald_outbox_%d", n) }
