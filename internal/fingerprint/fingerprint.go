// Package fingerprint tells payloads apart that came under one identity.
package fingerprint

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

// Of is an HMAC of what, whatever the lengths of its parts, cut to 64 bits; never 0. Nil and empty parts
// differ. With the key in the database nobody who reads marks can try out what a payload was.
func Of(key []byte, what ...[]byte) int64 { return of(hmac.New(sha256.New, key), what) }

// A Printer is Of under one key, for many: it need not be set up for each.
type Printer struct{ idle sync.Pool }

// New is a Printer under key.
func New(key []byte) *Printer {
	return &Printer{sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// Of is what the function of that name answers.
func (p *Printer) Of(what ...[]byte) int64 {
	h := p.idle.Get().(hash.Hash)
	defer p.idle.Put(h)
	h.Reset()
	return of(h, what)
}

// Sum is the whole HMAC, of which Of is the first 64 bits.
func Sum(key []byte, what ...[]byte) [sha256.Size]byte { return sum(hmac.New(sha256.New, key), what) }

func of(h hash.Hash, what [][]byte) int64 {
	all := sum(h, what)
	n := int64(binary.BigEndian.Uint64(all[:]))
	if n == 0 {
		return 1
	}
	return n
}

func sum(h hash.Hash, what [][]byte) (out [sha256.Size]byte) {
	var size [8]byte
	for _, part := range what {
		n := uint64(len(part)) + 1
		if part == nil {
			n = 0
		}
		binary.BigEndian.PutUint64(size[:], n)
		h.Write(size[:])
		h.Write(part)
	}
	h.Sum(out[:0])
	return out
}
