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

// StorableText returns s with the parts replaced that a text column cannot store. It is for attributes of
// foreign messages.
func StorableText(s string) string {
	if Storable(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// Name returns s as a key column can store it. A name that looks like a hash is hashed, too: otherwise an
// ID could equal the hash of another, long one.
func Name(s string) string {
	if len(s) <= MaxName && Storable(s) && !column.IsHashed(s) {
		return s
	}
	return column.HashName(s)
}

// Handles marks names that were read, so that Name does not hash a hash again.
func Handles(names ...*string) {
	for _, s := range names {
		*s = column.Handle(*s)
	}
}

// Fault returns the text of err for a row or message that cannot be read and is deferred for it; "" for
// nil.
func Fault(err error) string {
	if err == nil {
		return ""
	}
	return column.ClipReason(StorableText("it cannot be read: " + err.Error()))
}

// Quote returns s as a literal of SQL. s must not contain a backslash.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Quoted returns name as an identifier of SQL.
func Quoted(name string) string { return pgx.Identifier{name}.Sanitize() }
