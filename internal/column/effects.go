// This file lists the parts of a store.Effect. A new field is considered here, once for all stores.

package column

import (
	"errors"
	"reflect"

	"github.com/skald-go/skald/store"
)

// ErrRowsOnly is why an effect cannot be written in a transaction of the caller's.
var ErrRowsOnly = errors.New(
	"an effect in a transaction of yours may hold rows, an answer and the move of a saga only")

// RowsOnly tells whether e holds rows, an answer and the move of a saga, and nothing else.
func RowsOnly(e store.Effect) bool {
	e.Rows, e.Answer, e.Saga = nil, nil, nil
	return reflect.ValueOf(e).IsZero()
}

// Answered tells whether m holds an answer.
func Answered(m *store.Mark) bool {
	return m.Code != 0 || m.Result != "" || m.Emitted != "" || m.Headers != ""
}

// ShardOnly tells whether e holds a shard's progress, and nothing else.
func ShardOnly(e store.Effect) bool {
	if e.Shard == nil {
		return false
	}
	e.Shard = nil
	return reflect.ValueOf(e).IsZero()
}
