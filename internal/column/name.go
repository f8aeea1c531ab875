package column

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	hashed = "sha256:" // before a hash that stands for what it is of
	handle = hashed + "stored:"
)

// HashName is what stands for a name in a column that cannot hold it. Of a handle it is the hash in that.
func HashName(name string) string {
	if IsHandle(name) {
		return hashed + name[len(handle):]
	}
	sum := sha256.Sum256([]byte(name))
	return hashed + hex.EncodeToString(sum[:])
}

// IsHashed tells whether a name looks like a Hash, or is a handle. Such a one is hashed, too: else it could
// be that of another's long one.
func IsHashed(name string) bool { return strings.HasPrefix(name, hashed) }

// IsHandle tells whether a name is what Handle makes of a Hash.
func IsHandle(name string) bool {
	of, ok := strings.CutPrefix(name, handle)
	return ok && len(of) == hex.EncodedLen(sha256.Size) && strings.Trim(of, "0123456789abcdef") == ""
}

// Handle is by what a name is told of which a column has only the Hash: who comes back with it means the
// same.
func Handle(column string) string {
	if of, ok := strings.CutPrefix(column, hashed); ok {
		return handle + of
	}
	return column
}

// Names tells whether what a store tells is name, as it is or by its handle.
func Names(told, name string) bool {
	return told == name || IsHandle(told) && told == Handle(HashName(name))
}
