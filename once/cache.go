package once

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/store"
)

// Cache stores finished work in front of the database; package rediscache has one. It need not be correct.
// Skald compares its values with a code that only this database can compute for this work and payload. Any
// other value counts as a miss. So a cache that is empty, unreachable, stale, shared with other systems or
// wrong costs only time.
type Cache interface {
	// Get returns the value of each key, "" for a miss. It returns quickly even if the cache is unreachable.
	Get(ctx context.Context, keys []string) []string
	// Put stores entries some time later, or never. It does not wait. Callers pass only committed work.
	Put(entries ...Entry)
	// TTL returns the maximum time that an entry stays.
	TTL() time.Duration
}

// Entry records that some work is finished. Key identifies the work. Value is a code for work, payload and
// server, or a Sealed answer.
type Entry struct {
	Key, Value string
	Until      time.Time // when the entry must expire. Zero means the cache's TTL
}

// Seal returns the entry of finished work: an HMAC with the database's secret. Server is the run of the
// database's server, as in store.SyncResult. After a restart or a restore no earlier entry counts, because
// commits may be lost.
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
