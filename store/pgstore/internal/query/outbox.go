// This file has the outbox and its shards: writers insert rows; relays read them and store progress.

package query

import (
	"crypto/rand"
	"strings"
	"sync/atomic"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Outbox is the outbox of one database.
type Outbox struct {
	pg    *sqlexec.DB
	none  string // replaces NULL in an array
	bases bases
	place place
	heavy atomic.Bool // read the next page by PullOn, because PullLight failed or found a heavy row
}

// NewOutbox returns the outbox of pg.
func NewOutbox(pg *sqlexec.DB) *Outbox { return &Outbox{pg: pg, none: rand.Text()} }

// pulls derives the variants of the statements that read a page.
func pulls(raw map[string]string) {
	for name, bits := range map[string]string{"Pull": "$7", "PullOn": "$5", "PullLight": "$6"} {
		text := strings.NewReplacer("/*columns*/", rowColumns, "/*raw*/", rawColumns, "/*lightcolumns*/",
			lightColumns, "/*lightraw*/", lightRaw, "/*upto*/", upto).Replace(raw[name])
		text = bounded(text)
		raw[name] = strings.ReplaceAll(text, "/*filter*/", "")
		raw[name+"Some"] = strings.ReplaceAll(text, "/*filter*/",
			strings.ReplaceAll(bucketFilter, "$bits", bits))
	}
	raw["Retry"] = bounded(raw["Retry"])
	raw["DeferUnread"] = bucketed(raw["DeferUnread"])
}

// bucketed adds the bucket of a row that has none to a statement.
func bucketed(text string) string { return strings.ReplaceAll(text, "/*bucket*/", bucketOf) }
