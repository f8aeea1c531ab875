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

const rekeyEvery = time.Minute

// printer computes fingerprints of messages with the key of the database.
type printer struct {
	of      func(skald.Message) []byte // nil: type and payload
	without func(data []byte) []byte   // returns the part of the payload that counts
	key     atomic.Pointer[fingerprint.Printer]
	keyAt   time.Time // the next time to read the key
}

// print returns the fingerprint of e. It returns 0 if no fingerprints are compared.
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

// printed returns the fingerprint of e, or 0 if its function fails.
func (x *Executor[TTx]) printed(e *partition.Entry) int64 {
	print, _ := x.print(e)
	return print
}

// HasKey reports whether the key was read.
func (p *printer) HasKey() bool { return p.key.Load() != nil }

// Rekey reads the key of fingerprints from the database, at most once per minute: the database may have been
// replaced. After an error the old key remains. Only one goroutine may call it.
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

// Seal returns the cache entry of a finished e, for one session of the database server.
func (x *Executor[TTx]) Seal(e *partition.Entry, server string) once.Entry {
	return once.Seal(x.key.Load(), server, x.o.Group, e.Identity(), x.printed(e))
}
