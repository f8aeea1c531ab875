// This file has the state of consumers other than messages: checkpoints, owners of partitions, and the
// types that they handle. It also renames consumers.

package query

import (
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Consumers has the consumers of one database.
type Consumers struct {
	pg       *sqlexec.DB
	recovery *Recovery // explains why a process cannot take a partition
}

// NewConsumer returns the consumers of pg.
func NewConsumer(pg *sqlexec.DB, r *Recovery) *Consumers { return &Consumers{pg, r} }
