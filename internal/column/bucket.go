// This file hashes keys into buckets. Each store has the same function in SQL.

package column

import (
	"crypto/sha256"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Bucket returns the bucket of a message: the hash of its key, or of its ID if it has no key. In SQL it is
// get_byte(h,0) % 4 * 256 + get_byte(h,1) with h = sha256(key or id).
func Bucket(m *skald.Message) int {
	if m.Key != nil {
		return bucketHash(m.Key)
	}
	return bucketHash([]byte(m.ID))
}

func bucketHash(b []byte) int {
	h := sha256.Sum256(b)
	return (int(h[0])<<8 | int(h[1])) % store.Buckets
}
