// This file is what a database knows of consumers beside their messages: how far they have come, who
// reads which partition, and which types they handle. It also gives what is kept of one to another name.

package query

import (
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Consumers are those of one database.
type Consumers struct {
	pg       *sqlexec.DB
	recovery *Recovery // tells why a partition cannot be taken
}

// NewConsumer are the consumers in pg.
func NewConsumer(pg *sqlexec.DB, r *Recovery) *Consumers { return &Consumers{pg, r} }
