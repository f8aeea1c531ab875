package column

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	hashed = "sha256:" // the prefix of a hash that replaces a name
	handle = hashed + "stored:"
)

// HashName returns the hash that replaces a name in a column that cannot store it. For a handle it returns
// the handle's hash.
func HashName(name string) string {
	if IsHandle(name) {
		return hashed + name[len(handle):]
	}
	sum := sha256.Sum256([]byte(name))
	return hashed + hex.EncodeToString(sum[:])
}

// IsHashed reports whether a name looks like the result of HashName, or is a handle. Such a name must be
// hashed, too; otherwise it could equal the hash of another name.
func IsHashed(name string) bool { return strings.HasPrefix(name, hashed) }

// IsHandle reports whether a name looks like the result of Handle for a hash.
func IsHandle(name string) bool {
	of, ok := strings.CutPrefix(name, handle)
	return ok && len(of) == hex.EncodedLen(sha256.Size) && strings.Trim(of, "0123456789abcdef") == ""
}

// Handle returns the name to show for a column's value. A hash becomes a handle, which callers may use in
// place of the name.
func Handle(column string) string {
	if of, ok := strings.CutPrefix(column, hashed); ok {
		return handle + of
	}
	return column
}

// Names reports whether told, as a store returned it, is name or its handle.
func Names(told, name string) bool {
	return told == name || IsHandle(told) && told == Handle(HashName(name))
}
