package once

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/store"
)

// A Cache in front of the database remembers what is finished: rediscache has one. It need not be right. What
// it returns is compared with a code that only this database can have made for this very work and payload;
// anything else counts as not known. So a cache that is empty, away, stale, shared with other systems or
// wrong costs time, and nothing else.
type Cache interface {
	// Get returns the value of each key; "": not known. It returns soon, whatever becomes of the cache.
	Get(ctx context.Context, keys []string) []string
	// Put stores entries some time later, or never. It does not wait. Work is stored only once it is
	// committed.
	Put(entries ...Entry)
	// TTL is how long an entry stays at most.
	TTL() time.Duration
}

// An Entry says that some work is finished. Its Key names the work, its Value is a code for work, payload and
// server, or a Sealed answer.
type Entry struct {
	Key, Value string
	Until      time.Time // it must not stay for longer. Zero: for as long as the cache's TTL
}

// Seal makes the entry of finished work: an HMAC by the database's own secret. The server is the run of the
// database's server as store.Attended has it: behind a restart or a restore nothing that was cached counts
// any more, since what was committed may be gone.
func Seal(secret *fingerprint.Printer, server, consumer string, id store.Identity, print int64) Entry {
	work := [][]byte{[]byte(consumer), []byte(id.Source), []byte(id.ID)}
	var payload [8]byte
	binary.BigEndian.PutUint64(payload[:], uint64(print))
	return Entry{Key: code(secret.Of(append(work, []byte("key"))...)),
		Value: code(secret.Of(append(work, []byte(server), payload[:])...))}
}

func code(n int64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	return base64.RawURLEncoding.EncodeToString(b[:])
}
