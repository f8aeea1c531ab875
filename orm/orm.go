// Package orm shows the outbox in a transaction of GORM, sqlx, bun and sqlc, and holds what Skald promises
// over lib/pq: others' code, which no user of Skald is to build, and so a module of its own.
package orm

import (
	"database/sql"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/outbox"
)

// An Order is a row of the user's own, and what is said when there is a new one.
type Order struct {
	ID    string
	Cents int64
}

// OrderPlaced is said in the transaction that places an order.
var OrderPlaced = skald.Event[Order]{Topic: "orders", Type: "order.placed"}

// An Outbox over database/sql: outbox.New(pgstore.NewSQL(db, nil), nil).
type Outbox = *outbox.Outbox[*sql.Tx]
