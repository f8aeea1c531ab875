// Package bucket hashes keys into buckets, the same way in Go and in SQL.
package bucket

import (
	"crypto/sha256"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Of is the bucket of a message: by its key, else by its id. In SQL:
// get_byte(h,0) % 4 * 256 + get_byte(h,1) with h = sha256(key or id).
func Of(m *skald.Message) int {
	if m.Key != nil {
		return hash(m.Key)
	}
	return hash([]byte(m.ID))
}

func hash(b []byte) int {
	h := sha256.Sum256(b)
	return (int(h[0])<<8 | int(h[1])) % store.Buckets
}
