package exec

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
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

// print is the fingerprint of what came with e; 0: not to be compared.
func (p *printer) print(e *partition.Entry) int64 {
	key := p.key.Load()
	if key == nil {
		return 0
	}
	if p.of == nil {
		return key.Of([]byte(e.Type), p.without(e.Data))
	}
	what := p.of(copyOf(e))
	if what == nil {
		return 0
	}
	return key.Of(what)
}

// printed is the fingerprint of a message that Options.Identity.Fingerprint may not be made for.
func (p *printer) printed(e *partition.Entry) (print int64) {
	if p.of == nil {
		return p.print(e)
	}
	_ = failure.Run(func() error {
		print = p.print(e)
		return nil
	}) // else it is not known: 0
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
