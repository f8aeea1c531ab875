// This file is what columns of SQLite can hold, and what comes back from them: text or bytes that may be
// none, times, headers.

package sqlexec

import (
	"bytes"
	"database/sql"
	"strings"
	"unicode/utf8"

	"github.com/skald-go/skald/internal/column"
)

// Split puts b into the one column or the other; nil is NULL in both.
func Split(b []byte, text bool) (any, any) {
	switch {
	case b == nil:
		return nil, nil
	case text:
		return string(b), nil
	}
	return nil, b
}

// Join is what Split put into two columns.
func Join(text sql.NullString, raw sql.Null[[]byte]) []byte {
	if text.Valid {
		return []byte(text.String)
	}
	return Blob(raw)
}

// CanBeText: SQL reads text up to the first NUL.
func CanBeText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// Bytes is b, NULL if there is none.
func Bytes(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// Blob is what a column has, nil for NULL.
func Blob(b sql.Null[[]byte]) []byte {
	if b.Valid && b.V == nil {
		return []byte{}
	}
	return b.V
}

// Text is s, NULL for "".
func Text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// TextBytes is s as bytes, NULL for "".
func TextBytes(s string) any {
	if s == "" {
		return nil
	}
	return []byte(s)
}

// Fault says of a row or message, which is deferred for it, why it cannot be read.
func Fault(err error) string {
	return column.ClipReason(strings.ToValidUTF8("it cannot be read: "+err.Error(), "\ufffd"))
}
