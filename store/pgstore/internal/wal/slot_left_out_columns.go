package wal

import "github.com/skald-go/skald/store/pgstore/internal/sqlexec"

// A LeftOut is what a publication has not got of the outbox: a connector would read it as NULL.
type LeftOut struct {
	Publication, Columns string
	Payloads             bool // it has these
}

// ListLeftOut is the call that fills out.
func ListLeftOut(pg *sqlexec.DB, out *[]LeftOut) sqlexec.Call {
	list := pg.Call("ListLeftOut")
	list.Scan = func(row sqlexec.Scanner) error {
		var one LeftOut
		err := row.Scan(&one.Publication, &one.Columns, &one.Payloads)
		*out = append(*out, one)
		return err
	}
	return list
}
