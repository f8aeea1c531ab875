// The files mark*.go have the marks of finished messages and the reservations of keys. A mark is in the
// transaction of the message's effect, so a duplicate of the message has no effect.

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

// Parts of the statements that insert marks: see InsertMark in mark.sql. inserts replaces the names with $.
const (
	arrived = `CASE WHEN to_timestamp($written / 1000.0) < clock_timestamp() + interval '7 days'
	THEN greatest(to_timestamp($written / 1000.0), clock_timestamp()) ELSE clock_timestamp() END`

	// known is the condition that a message is not too old: retention has not deleted the marks of its time.
	// The floor of a consumer is the time up to which marks are deleted. IDs of the last hour need no read of
	// the floor, because the floor is always older: see leastMarks in package admin.
	known = `CASE WHEN $written = 0 OR to_timestamp($written / 1000.0) > clock_timestamp() - interval '1 hour' THEN true
		ELSE (SELECT k.arrival FROM /*schema*/skald_mark AS k WHERE k.consumer = $1::text AND k.source = $source AND k.id = $id) IS NULL
			AND ($held OR (SELECT f.at FROM /*schema*/skald_floor AS f
				WHERE f.consumer = $1::text AND f.at >= to_timestamp($written / 1000.0)) IS NULL) END`
)

// inserts completes the statements that insert marks: with parameters for one mark, with columns for many.
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
