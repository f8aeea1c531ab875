// This file has the marks of finished messages and the reservations of keys. Because of the marks, each
// message has its effect once.

package query

import (
	"strings"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Marks has the marks of one database.
type Marks struct {
	pg   *sqlexec.DB
	kept *Parked // for the order of the messages of a key
}

// NewMark returns the marks of pg.
func NewMark(pg *sqlexec.DB, k *Parked) *Marks { return &Marks{pg, k} }

// Fragments of the statements that insert marks: see InsertMark. For a statement that inserts many, $n is
// replaced by a column.
const (
	arrived = `CASE WHEN to_timestamp($written / 1000.0) < clock_timestamp() + interval '7 days'
	THEN greatest(to_timestamp($written / 1000.0), clock_timestamp()) ELSE clock_timestamp() END`

	// known is true for IDs of the last hour, without a read of the floor, because no floor is in the last
	// hour: see leastMarks in package admin.
	known = `CASE WHEN $written = 0 OR to_timestamp($written / 1000.0) > clock_timestamp() - interval '1 hour' THEN true
		ELSE (SELECT k.arrival FROM /*schema*/skald_mark AS k WHERE k.consumer = $1::text AND k.source = $source AND k.id = $id) IS NULL
			AND ($held OR (SELECT f.at FROM /*schema*/skald_floor AS f
				WHERE f.consumer = $1::text AND f.at >= to_timestamp($written / 1000.0)) IS NULL) END`
)

// inserts completes the statements that insert marks.
func inserts(raw map[string]string) {
	for name, text := range raw {
		columns := []string{"$written", "$7::bigint", "$source", "$2::text", "$id", "$3::text", "$held",
			"$8::boolean"}
		if name == "InsertMarks" {
			columns = []string{"$written", "i.written", "$source", "i.source", "$id", "i.id",
				"$held", "i.held"}
		}
		fill := strings.NewReplacer(columns...)
		raw[name] = strings.NewReplacer("/*arrived*/", fill.Replace(arrived), "/*known*/",
			fill.Replace(known)).Replace(text)
	}
}
