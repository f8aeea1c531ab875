package sqlexec

import (
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// Identity returns the key columns of a message at a consumer.
func Identity(consumer string, id store.Identity) []any {
	return []any{Name(consumer), Name(id.Source), Name(id.ID)}
}

// Key returns key as an index can store it. The size of an index entry is limited, so a long key is
// replaced by its hash. A key that looks like a hash is hashed, too.
func Key(key string) []byte {
	if len(key) <= MaxName && !column.IsHashed(key) {
		return []byte(key)
	}
	return []byte(Name(key))
}

// MessageKey returns Key of a message's key; nil if it has none.
func MessageKey(key []byte) []byte {
	if key == nil {
		return nil
	}
	return Key(string(key))
}

// Identities collects identities of one table, with their places in the result.
type Identities struct {
	Sources, IDs []string
	Places       []int32
}

// Add adds one identity.
func (w *Identities) Add(id store.Identity, place int) {
	w.Sources, w.IDs, w.Places = append(w.Sources, Name(id.Source)), append(w.IDs, Name(id.ID)),
		append(w.Places, int32(place))
}
