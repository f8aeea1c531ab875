package slot

import "github.com/skald-go/skald/store/pgstore/internal/pgrun"

// A LeftOut is what a publication has not got of the outbox: a connector would read it as NULL.
type LeftOut struct {
	Publication, Columns string
	Payloads             bool // it has these
}

// ListLeftOut is the call that fills out.
func ListLeftOut(pg *pgrun.DB, out *[]LeftOut) pgrun.Call {
	list := pg.Call("ListLeftOut")
	list.Scan = func(row pgrun.Scanner) error {
		var one LeftOut
		err := row.Scan(&one.Publication, &one.Columns, &one.Payloads)
		*out = append(*out, one)
		return err
	}
	return list
}
