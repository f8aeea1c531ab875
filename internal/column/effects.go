// This file checks which parts a store.Effect has. Check these functions when you add a field to
// store.Effect.

package column

import (
	"errors"
	"reflect"

	"github.com/skald-go/skald/store"
)

// ErrRowsOnly is the error for an effect that a store cannot write in a transaction of the caller.
var ErrRowsOnly = errors.New(
	"an effect in your own transaction may have only rows, an answer, the move of a saga and tracked sagas")

// RowsOnly reports whether e has no parts other than rows, an answer, the move of a saga and tracked sagas.
func RowsOnly(e store.Effect) bool {
	e.Rows, e.Answer, e.Saga, e.Tracked = nil, nil, nil, nil
	return reflect.ValueOf(e).IsZero()
}

// Answered reports whether m has an answer.
func Answered(m *store.Mark) bool {
	return m.Code != 0 || m.Result != "" || m.Emitted != "" || m.Headers != ""
}

// ShardOnly reports whether e has a shard's progress and no other part.
func ShardOnly(e store.Effect) bool {
	if e.Shard == nil {
		return false
	}
	e.Shard = nil
	return reflect.ValueOf(e).IsZero()
}
