package once

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/store"
)

// Cache stores finished work, so that a repeat needs no query of the database. Package rediscache has one. It
// need not be correct. Skald compares its values with a code that only this database can compute for this
// work and payload. Any other value counts as a miss. So a cache that is empty, unreachable, stale, wrong or
// shared with other systems costs only time.
type Cache interface {
	// Get returns the value of each key, or "" if it has none. It returns quickly even if the cache is
	// unreachable.
	Get(ctx context.Context, keys []string) []string
	// Put stores entries later, or never. It does not wait. Callers pass only committed work.
	Put(entries ...Entry)
	// TTL returns how long an entry stays at most.
	TTL() time.Duration
}

// Entry records that some work is finished. Key identifies the work. Value is a code for work, payload and
// server, or a Sealed answer.
type Entry struct {
	Key, Value string
	Until      time.Time // when the entry must expire; zero means after the cache's TTL
}

// Seal returns the entry of finished work: an HMAC with the database's secret. The parameter server is the
// id of the current run of the database server, as in store.SyncResult. After a restart or a restore the id
// is another one. So earlier entries no longer match, because commits may be lost.
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
