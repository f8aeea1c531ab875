package sqlexec

import (
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// Identity returns the values of the columns that identify a message of a consumer.
func Identity(consumer string, id store.Identity) []any {
	return []any{Name(consumer), Name(id.Source), Name(id.ID)}
}

// Key returns key in the form that the tables store. It replaces a long key by its hash, because an index
// entry has a maximum size. It also hashes a key that looks like a hash, so that two keys cannot have the
// same form.
func Key(key string) []byte {
	if len(key) <= MaxName && !column.IsHashed(key) {
		return []byte(key)
	}
	return []byte(Name(key))
}

// MessageKey returns Key for the key of a message; nil if the message has no key.
func MessageKey(key []byte) []byte {
	if key == nil {
		return nil
	}
	return Key(string(key))
}

// Identities collects identities as array arguments of a statement. Places has the index of each identity in
// the result of the caller.
type Identities struct {
	Sources, IDs []string
	Places       []int32
}

func (w *Identities) Add(id store.Identity, place int) {
	w.Sources, w.IDs, w.Places = append(w.Sources, Name(id.Source)), append(w.IDs, Name(id.ID)),
		append(w.Places, int32(place))
}
