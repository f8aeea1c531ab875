package memstore

import (
	"github.com/skald-go/skald/store"
)

// note writes down what an operator does.
func (d *database) note(a store.Audit) {
	a.Number, a.At = int64(len(d.audit)+1), d.now()
	d.audit = append(d.audit, a)
}
