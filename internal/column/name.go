package column

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	hashed = "sha256:"          // the prefix of a hash that replaces a name in a column
	handle = hashed + "stored:" // the prefix of a handle: see Handle
)

// HashName returns the hash that replaces a name in a column, if the column cannot store the name itself.
// For a handle it returns the hash that the handle stands for.
func HashName(name string) string {
	if IsHandle(name) {
		return hashed + name[len(handle):]
	}
	sum := sha256.Sum256([]byte(name))
	return hashed + hex.EncodeToString(sum[:])
}

// IsHashed reports whether a name looks like the result of HashName, or like a handle. Stores must hash such
// a name, too. Otherwise it could be equal to the hash of another name.
func IsHashed(name string) bool { return strings.HasPrefix(name, hashed) }

// IsHandle reports whether a name looks like a handle: see Handle.
func IsHandle(name string) bool {
	of, ok := strings.CutPrefix(name, handle)
	return ok && len(of) == hex.EncodedLen(sha256.Size) && strings.Trim(of, "0123456789abcdef") == ""
}

// Handle returns the name to show for the value of a column. If the value is a hash, this is a handle:
// callers may use the handle instead of the original name, which is not stored.
func Handle(column string) string {
	if of, ok := strings.CutPrefix(column, hashed); ok {
		return handle + of
	}
	return column
}

// Names reports whether returned, a name that a store returned, is name or the handle of name.
func Names(returned, name string) bool {
	return returned == name || IsHandle(returned) && returned == Handle(HashName(name))
}
