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

// A printer makes fingerprints of messages, with the key of the database.
type printer struct {
	of      func(skald.Message) []byte // nil: of type and payload
	without func(data []byte) []byte   // the payload as that fingerprint has it
	key     atomic.Pointer[fingerprint.Printer]
	keyAt   time.Time // when it is read again
}

// print returns the fingerprint of e. Returns 0 if no fingerprints are compared.
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

// HasKey tells whether the key was read.
func (p *printer) HasKey() bool { return p.key.Load() != nil }

// Rekey reads the key of fingerprints, now and then again: the database may be another one. Until it can be
// had the old one serves. It is for one goroutine, beside all others.
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

// Seal is what a cache keeps of e where it is finished, for a run of the database's server.
func (x *Executor[TTx]) Seal(e *partition.Entry, server string) once.Entry {
	return once.Seal(x.key.Load(), server, x.o.Group, e.Identity(), x.printed(e))
}
