// This file is what columns of PostgreSQL can hold, and what comes back from them: text that may be
// none, names that are too long for an index, times and bytes in whatever form a driver has them.

package sqlexec

import (
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/column"
)

const (
	// MaxName bounds a consumer, source or id that is kept as it is. A longer one is kept as its hash: an
	// index entry is limited.
	MaxName = 1 << 10
)

// Storable tells whether a text column can hold s.
func Storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// Legible is what text can hold of an attribute that a foreign message brought along.
func Legible(s string) string {
	if Storable(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// Name is s as a key column can hold it. What looks like a hash is hashed too: else an id could be that of
// another's long one.
func Name(s string) string {
	if len(s) <= MaxName && Storable(s) && !column.IsHashed(s) {
		return s
	}
	return column.HashName(s)
}

// Handles makes of names that were read what Name knows again: a hash would be hashed once more.
func Handles(names ...*string) {
	for _, s := range names {
		*s = column.Handle(*s)
	}
}

// Fault says of a row or message, which is deferred for it, why it cannot be read.
func Fault(err error) string {
	if err == nil {
		return ""
	}
	return column.ClipReason(Legible("it cannot be read: " + err.Error()))
}

// Quote is s as a literal of SQL; it has no backslash.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Quoted is name as an identifier of SQL.
func Quoted(name string) string { return pgx.Identifier{name}.Sanitize() }
