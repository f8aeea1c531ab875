// The files column*.go convert values to and from columns of SQLite: optional text and bytes, times and
// headers.

package sqlexec

import (
	"bytes"
	"database/sql"
	"strings"
	"unicode/utf8"

	"github.com/skald-go/skald/internal/column"
)

// Split returns the values for a text column and a bytes column, one of which stores b. The other one is
// NULL, and both are NULL if b is nil.
func Split(b []byte, text bool) (any, any) {
	switch {
	case b == nil:
		return nil, nil
	case text:
		return string(b), nil
	}
	return nil, b
}

// Join returns the bytes that Split returned as two columns.
func Join(text sql.NullString, raw sql.Null[[]byte]) []byte {
	if text.Valid {
		return []byte(text.String)
	}
	return Blob(raw)
}

// CanBeText reports whether a text column can store b: valid UTF-8 without NUL, because SQLite reads text up
// to a NUL.
func CanBeText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// Bytes returns b, or NULL for nil.
func Bytes(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// Blob returns the value of a column, nil for NULL.
func Blob(b sql.Null[[]byte]) []byte {
	if b.Valid && b.V == nil {
		return []byte{}
	}
	return b.V
}

// Text returns s, or NULL for "".
func Text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// TextBytes returns s as bytes, or NULL for "".
func TextBytes(s string) any {
	if s == "" {
		return nil
	}
	return []byte(s)
}

// Fault returns the reason to store for a row or message that cannot be read because of err.
func Fault(err error) string {
	return column.ClipReason(strings.ToValidUTF8("it cannot be read: "+err.Error(), "\ufffd"))
}
