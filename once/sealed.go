package once

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/skald-go/skald/internal/fingerprint"
)

// Sealed encrypts the answers of one request for a Cache. It derives the encryption key from the database's
// secret, the run of its server, and the scope, tenant, key and payload of the request. So a value that
// decrypts is the complete answer that this database stored for this request. It cannot belong to another
// key, another payload or a copied database. It cannot be older than a restart or a restore, which may have
// lost commits. A reader of the cache cannot decrypt answers.
type Sealed struct {
	Key  string // key of the entry in the cache
	aead cipher.AEAD
}

// Seal returns the encryption for the answer to q. The parameter server has the same meaning as in the
// function Seal.
func (q Request) Seal(secret []byte, server string) (*Sealed, error) {
	m := q.mark(secret)
	work := [][]byte{[]byte(m.Consumer), []byte(m.Source), []byte(m.ID)}
	name := fingerprint.Sum(secret, append([][]byte{[]byte("key of an answer")}, work...)...)
	var print [8]byte
	binary.BigEndian.PutUint64(print[:], uint64(m.Fingerprint))
	under := fingerprint.Sum(secret, append([][]byte{[]byte("answer, format 1"), []byte(server), print[:]},
		work...)...)
	block, err := aes.NewCipher(under[:])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Sealed{Key: base64.RawURLEncoding.EncodeToString(name[:16]), aead: aead}, err
}

// Close encrypts the answer a, and returns the entry for the cache. The entry expires at the time expiry,
// also by the clock of the process that opens it.
func (s *Sealed) Close(a Answer, expiry time.Time) Entry {
	plain := binary.BigEndian.AppendUint64(nil, uint64(expiry.UnixMilli()))
	plain = binary.BigEndian.AppendUint32(plain, uint32(a.Code))
	rejected := byte(0)
	if a.Rejected {
		rejected = 1
	}
	plain = append(plain, rejected)
	for _, part := range []string{a.Reason, a.Result, a.Headers} {
		plain = binary.BigEndian.AppendUint32(plain, uint32(len(part)))
		plain = append(plain, part...)
	}
	return Entry{Key: s.Key, Value: string(s.aead.Seal(nil, nil, plain, nil)), Until: expiry}
}

var errNotSealed = errors.New("once: this is no sealed answer")

// Open decrypts a value of Close. It returns false for any other value, and for a value that has expired.
func (s *Sealed) Open(value string, now time.Time) (a Answer, ok bool) {
	plain, err := s.aead.Open(nil, nil, []byte(value), nil)
	if err != nil || len(plain) < 13 {
		return a, false
	}
	if until := int64(binary.BigEndian.Uint64(plain)); until <= now.UnixMilli() {
		return a, false
	}
	a.Code, a.Rejected = int32(binary.BigEndian.Uint32(plain[8:])), plain[12] == 1
	plain = plain[13:]
	for _, part := range []*string{&a.Reason, &a.Result, &a.Headers} {
		if *part, plain, err = cut(plain); err != nil {
			return Answer{}, false
		}
	}
	return a, true
}

// cut splits plain into its first part and the rest.
func cut(plain []byte) (part string, rest []byte, err error) {
	if len(plain) < 4 {
		return "", nil, errNotSealed
	}
	n := binary.BigEndian.Uint32(plain)
	if plain = plain[4:]; uint64(n) > uint64(len(plain)) {
		return "", nil, errNotSealed
	}
	return string(plain[:n]), plain[n:], nil
}
