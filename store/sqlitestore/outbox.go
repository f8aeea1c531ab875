// This file is the table of messages to be published, with its shards: what writers add to it, and what
// relays read of it and note about it.

package sqlitestore

import (
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// An outboxTable is the table in one file.
type outboxTable struct{ run *sqlexec.DB }

// newOutbox is the outbox in the file of run.
func newOutbox(run *sqlexec.DB) *outboxTable { return &outboxTable{run} }
