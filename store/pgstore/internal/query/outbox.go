// The files outbox*.go have the outbox and its shards. Writers insert rows; relays read them and store their
// progress.

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
	none  string // stands for NULL in an array argument
	bases bases
	place place
	heavy atomic.Bool // use PullOn for the next page, because PullLight failed or found a heavy row
}

// NewOutbox returns the outbox of pg.
func NewOutbox(pg *sqlexec.DB) *Outbox { return &Outbox{pg: pg, none: rand.Text()} }

// pulls completes the statements that read a page, and adds their variants for some buckets.
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

// bucketed completes a statement with the expression that computes the bucket of a row.
func bucketed(text string) string { return strings.ReplaceAll(text, "/*bucket*/", bucketOf) }
