// This file is the table of messages to be published, with its shards: what writers add to it, and what
// relays read of it and note about it.

package query

import (
	"crypto/rand"
	"strings"
	"sync/atomic"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// An Outbox is the table in one database.
type Outbox struct {
	pg    *sqlexec.DB
	none  string // stands for NULL in an array
	bases bases
	place place
	heavy atomic.Bool // the next page is read by PullOn, because PullLight failed or met a heavy row
}

// NewOutbox is the outbox in pg.
func NewOutbox(pg *sqlexec.DB) *Outbox { return &Outbox{pg: pg, none: rand.Text()} }

// pulls makes the forms of the statements that read a page.
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

// bucketed has a statement know the bucket of a row that has none.
func bucketed(text string) string { return strings.ReplaceAll(text, "/*bucket*/", bucketOf) }
