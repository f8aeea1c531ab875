package failure

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"regexp"
	"time"

	"github.com/skald-go/skald/store"
)

// NewDeath returns what a dead letter of this kind says of itself. A panic in err's chain gives its stack.
// Version and Holds are the caller's to fill.
func NewDeath(kind, fingerprint string, err error, at time.Time) *store.Death {
	d := &store.Death{At: at, Kind: kind, Fingerprint: fingerprint}
	var p *PanicError
	if errors.As(err, &p) {
		d.Stack = string(p.Stack)
	}
	return d
}

// Fingerprints gives failures of one kind the same fingerprint. It is safe for concurrent use.
type Fingerprints struct{ own []*regexp.Regexp }

// NewFingerprints compiles the patterns of what does not count: quoted text, UUIDs and numbers.
func NewFingerprints() *Fingerprints {
	f := &Fingerprints{}
	for _, own := range []string{`"[^"]*"`, `'[^']*'`, `\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b`,
		`0x[0-9a-fA-F]+`, `[0-9]+`} {
		f.own = append(f.own, regexp.MustCompile(own))
	}
	return f
}

// Of returns the fingerprint of a failure, 12 hexadecimal digits: of its class, the type of its message, and
// the text of its error without what belongs to one message alone.
func (f *Fingerprints) Of(class Class, typ, text string) string {
	for _, own := range f.own {
		text = own.ReplaceAllString(text, "#")
	}
	sum := sha256.Sum256([]byte(string(class) + "\x00" + typ + "\x00" + text))
	return hex.EncodeToString(sum[:6])
}
