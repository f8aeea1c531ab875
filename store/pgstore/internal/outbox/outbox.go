// Package outbox is the table of messages to be published, with its shards: what writers add to it, and what
// relays read of it and note about it.
package outbox

import (
	"crypto/rand"
	"embed"
	"strings"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

//go:embed sql/*.sql
var statements embed.FS

// An Outbox is the table in one database.
type Outbox struct {
	pg    *sqlexec.DB
	none  string // stands for NULL in an array
	bases bases
	place place
}

// New is the outbox in pg.
func New(pg *sqlexec.DB) *Outbox { return &Outbox{pg: pg, none: rand.Text()} }

// Statements are the statements of an Outbox, with a placeholder for the schema.
func Statements() (map[string]string, error) {
	raw, err := sqlfile.Load(statements, "sql", sqlexec.Placeholder)
	if err == nil {
		pulls(raw)
		lists(raw)
	}
	return raw, err
}

// pulls makes the forms of the statements that read a page.
func pulls(raw map[string]string) {
	for name, bits := range map[string]string{"Pull": "$7", "PullOn": "$5"} {
		text := strings.NewReplacer("/*columns*/", rowColumns, "/*raw*/", rawColumns, "/*plain*/",
			plainColumns, "/*size*/", rawSize, "/*upto*/", upto).Replace(raw[name])
		text = Bounded(text)
		raw[name] = strings.ReplaceAll(text, "/*filter*/", "")
		raw[name+"Some"] = strings.ReplaceAll(text, "/*filter*/",
			strings.ReplaceAll(bucketFilter, "$bits", bits))
	}
	raw["Retry"] = Bounded(raw["Retry"])
	raw["DeferUnread"] = Bucketed(raw["DeferUnread"])
}

// Bucketed has a statement know the bucket of a row that has none.
func Bucketed(text string) string { return strings.ReplaceAll(text, "/*bucket*/", bucketOf) }
