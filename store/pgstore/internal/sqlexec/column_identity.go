package sqlexec

import (
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// Identity is that of a message for a consumer.
func Identity(consumer string, id store.Identity) []any {
	return []any{Name(consumer), Name(id.Source), Name(id.ID)}
}

// Key is a key as an index can hold it, a long one as its hash: an entry is limited. What looks like a hash
// is hashed too.
func Key(key string) []byte {
	if len(key) <= MaxName && !column.IsHashed(key) {
		return []byte(key)
	}
	return []byte(Name(key))
}

// MessageKey is Key of a message's; nil: it has none.
func MessageKey(key []byte) []byte {
	if key == nil {
		return nil
	}
	return Key(string(key))
}

// Identities are those of one table, and their places in the answer.
type Identities struct {
	Sources, IDs []string
	Places       []int32
}

// Add adds one.
func (w *Identities) Add(id store.Identity, place int) {
	w.Sources, w.IDs, w.Places = append(w.Sources, Name(id.Source)), append(w.IDs, Name(id.ID)),
		append(w.Places, int32(place))
}
