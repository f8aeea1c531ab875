package sqlexec

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// Blob scans a bytea in any format that the server sends. The format depends on bytea_output, which Skald
// must not change in a transaction of a handler.
type Blob []byte

// ScanBytes reads the binary format.
func (b *Blob) ScanBytes(v []byte) error {
	*b = bytes.Clone(v)
	return nil
}

// Scan reads a value of a database/sql driver.
func (b *Blob) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*b = nil
	case []byte:
		*b = bytes.Clone(v)
	default:
		return fmt.Errorf("a bytea came as %T", src)
	}
	return nil
}

// ScanText reads both text formats. hex is \x and hexadecimal digits. escape has the bytes themselves, with a
// special byte as \ and three octal digits, and a backslash as \\.
func (b *Blob) ScanText(v pgtype.Text) error {
	s := v.String
	if !v.Valid {
		*b = nil
		return nil
	}
	if digits, ok := strings.CutPrefix(s, `\x`); ok {
		out, err := hex.DecodeString(digits)
		*b = out
		return err
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\':
			out = append(out, s[i])
		case strings.HasPrefix(s[i+1:], `\`):
			out = append(out, '\\')
			i++
		default:
			n, err := strconv.ParseUint(s[i+1:min(i+4, len(s))], 8, 8)
			if err != nil {
				return fmt.Errorf("a bytea in an unknown format: %w", err)
			}
			out = append(out, byte(n))
			i += 3
		}
	}
	*b = out
	return nil
}
