// The files outbox*.go have the outbox and its shards. Writers insert rows; relays read them and store their
// progress.

package sqlitestore

import (
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// outboxTable is the outbox in one file.
type outboxTable struct{ run *sqlexec.DB }

// newOutbox returns the outbox in the file of db.
func newOutbox(db *sqlexec.DB) *outboxTable { return &outboxTable{db} }
