package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Database is the store.Database.ID of what parts name together: it shows none of them.
func Database(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "/")))
	return hex.EncodeToString(sum[:8])
}
