package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Database returns a hash of parts for store.Database.ID. The parts identify a database, and the hash does
// not reveal them.
func Database(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "/")))
	return hex.EncodeToString(sum[:8])
}
