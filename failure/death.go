package failure

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"regexp"
	"time"

	"github.com/skald-go/skald/store"
)

// NewDeath returns the data of a dead letter. If err wraps a panic, the data has its stack. The caller sets
// Version and BlocksKey.
func NewDeath(kind, fingerprint string, err error, at time.Time) *store.Death {
	d := &store.Death{At: at, Kind: kind, Fingerprint: fingerprint}
	var p *PanicError
	if errors.As(err, &p) {
		d.Stack = string(p.Stack)
	}
	return d
}

// Fingerprints computes fingerprints, which are the same for similar failures. It is safe for concurrent use.
type Fingerprints struct{ ignored []*regexp.Regexp }

// NewFingerprints returns Fingerprints that ignore quoted text, UUIDs and numbers.
func NewFingerprints() *Fingerprints {
	f := &Fingerprints{}
	for _, pattern := range []string{`"[^"]*"`, `'[^']*'`, `\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b`,
		`0x[0-9a-fA-F]+`, `[0-9]+`} {
		f.ignored = append(f.ignored, regexp.MustCompile(pattern))
	}
	return f
}

// Of returns the fingerprint of a failure, as 12 hexadecimal digits. It is a hash of the class, the type of
// the message, and the text of the error without ignored parts.
func (f *Fingerprints) Of(class Class, typ, text string) string {
	for _, pattern := range f.ignored {
		text = pattern.ReplaceAllString(text, "#")
	}
	sum := sha256.Sum256([]byte(string(class) + "\x00" + typ + "\x00" + text))
	return hex.EncodeToString(sum[:6])
}
