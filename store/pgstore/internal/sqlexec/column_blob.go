package sqlexec

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// A Blob is a bytea in whatever form the server sends it: bytea_output of a transaction that is the handler's
// is not ours to set.
type Blob []byte

// ScanBytes takes the binary form.
func (b *Blob) ScanBytes(v []byte) error {
	*b = bytes.Clone(v)
	return nil
}

// Scan takes what a driver of database/sql has read.
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

// ScanText takes the text form: hex, or escape, which has three octal digits for a byte, and two backslashes
// for one.
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
				return fmt.Errorf("a bytea in a form of its own: %w", err)
			}
			out = append(out, byte(n))
			i += 3
		}
	}
	*b = out
	return nil
}
