package exec

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/once"
)

const rekeyEvery = time.Minute // how often to read the key of the database

// printer computes fingerprints of messages with the key of the database.
type printer struct {
	of      func(skald.Message) []byte // nil: type and payload
	without func(data []byte) []byte   // returns the part of the payload that counts
	key     atomic.Pointer[fingerprint.Printer]
	keyAt   time.Time // the next time to read the key
}

// print returns the fingerprint of e, or 0 if this consumer compares no fingerprint for e.
func (x *Executor[TTx]) print(e *partition.Entry) (int64, error) {
	key := x.key.Load()
	if key == nil {
		return 0, nil
	}
	if x.of == nil {
		return key.Of([]byte(e.Type), x.without(e.Data)), nil
	}
	var bytes []byte
	m := copyOf(e)
	err := x.pure(e, "Options.Identity.Fingerprint", func() error { bytes = x.of(m); return nil })
	if err != nil || bytes == nil {
		return 0, err
	}
	return key.Of(bytes), nil
}

// printOrZero returns the fingerprint of e, or 0 if the user's function fails.
func (x *Executor[TTx]) printOrZero(e *partition.Entry) int64 {
	print, _ := x.print(e)
	return print
}

// HasKey reports whether the key has been read.
func (p *printer) HasKey() bool { return p.key.Load() != nil }

// Rekey reads the key of fingerprints from the database, at most once per minute, because another database
// may have replaced it. After an error the old key remains. Only one goroutine may call it.
func (x *Executor[TTx]) Rekey(ctx context.Context) error {
	now := x.o.Now()
	if x.HasKey() && now.Before(x.keyAt) {
		return nil
	}
	key, err := x.db.Secret(ctx)
	if err != nil {
		return err
	}
	x.key.Store(fingerprint.New(key))
	x.keyAt = now.Add(rekeyEvery)
	return nil
}

// Seal returns the cache entry for e, which is finished. The entry is valid for one run of the database
// server.
func (x *Executor[TTx]) Seal(e *partition.Entry, server string) once.Entry {
	return once.Seal(x.key.Load(), server, x.o.Group, e.Identity(), x.printOrZero(e))
}
