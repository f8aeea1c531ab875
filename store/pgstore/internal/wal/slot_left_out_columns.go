package wal

import "github.com/skald-go/skald/store/pgstore/internal/sqlexec"

// LeftOut has the columns of the outbox that a publication lacks. Debezium would read these columns as NULL.
type LeftOut struct {
	Publication, Columns string
	Payloads             bool // the publication has payloads
}

// ListLeftOut returns the call that adds an entry for each publication that lacks columns.
func ListLeftOut(pg *sqlexec.DB, entries *[]LeftOut) sqlexec.Call {
	list := pg.Call("ListLeftOut")
	list.Scan = func(row sqlexec.Scanner) error {
		var one LeftOut
		err := row.Scan(&one.Publication, &one.Columns, &one.Payloads)
		*entries = append(*entries, one)
		return err
	}
	return list
}
