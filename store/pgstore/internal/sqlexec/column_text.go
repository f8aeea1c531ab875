// This file converts values to and from columns of PostgreSQL: optional text, names that are too long for
// an index, and times and bytes in the formats of different drivers.

package sqlexec

import (
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/column"
)

const (
	// MaxName is the maximum length in bytes of a consumer, source or ID that is stored unchanged. A longer
	// one is stored as its hash, because the size of an index entry is limited.
	MaxName = 1 << 10
)

// Storable reports whether a text column can store s.
func Storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// StorableText returns s with U+FFFD in place of bytes that a text column cannot store. It is for attributes
// of messages from other producers.
func StorableText(s string) string {
	if Storable(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// Name returns s in the form that key columns store: unchanged, or as a hash if s is long or not storable. It
// also hashes a name that looks like a hash. Otherwise an ID could equal the hash of a longer ID.
func Name(s string) string {
	if len(s) <= MaxName && Storable(s) && !column.IsHashed(s) {
		return s
	}
	return column.HashName(s)
}

// Handles marks names that were read from a key column, so that Name does not hash a hash again.
func Handles(names ...*string) {
	for _, s := range names {
		*s = column.Handle(*s)
	}
}

// Fault returns the reason to store for a row or message that cannot be read because of err; "" for nil.
func Fault(err error) string {
	if err == nil {
		return ""
	}
	return column.ClipReason(StorableText("it cannot be read: " + err.Error()))
}

// Quote returns s as an SQL literal. s must not contain a backslash.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Quoted returns name as an SQL identifier.
func Quoted(name string) string { return pgx.Identifier{name}.Sanitize() }
