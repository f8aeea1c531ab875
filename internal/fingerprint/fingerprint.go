// Package fingerprint hashes payloads, so that a consumer detects another message with the same identity. It
// also checks that texts in JSON are UTF-8.
package fingerprint

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

// Of returns the first 64 bits of the HMAC of parts under key. The result is never 0. It depends on the
// borders between the parts, and nil differs from an empty part. A user that can read marks but not the key
// cannot guess the payload of a mark.
func Of(key []byte, parts ...[]byte) int64 { return of(hmac.New(sha256.New, key), parts) }

// Printer computes many fingerprints under one key, without a setup for each. It is safe for concurrent use.
type Printer struct{ idle sync.Pool }

// New returns a Printer for key.
func New(key []byte) *Printer {
	return &Printer{sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// Of returns the same result as the function Of.
func (p *Printer) Of(parts ...[]byte) int64 {
	h := p.idle.Get().(hash.Hash)
	defer p.idle.Put(h)
	h.Reset()
	return of(h, parts)
}

// Sum returns the whole HMAC of parts under key. Of returns its first 64 bits.
func Sum(key []byte, parts ...[]byte) [sha256.Size]byte { return sum(hmac.New(sha256.New, key), parts) }

func of(h hash.Hash, parts [][]byte) int64 {
	all := sum(h, parts)
	n := int64(binary.BigEndian.Uint64(all[:]))
	if n == 0 {
		return 1
	}
	return n
}

func sum(h hash.Hash, parts [][]byte) (out [sha256.Size]byte) {
	var size [8]byte
	for _, part := range parts {
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
