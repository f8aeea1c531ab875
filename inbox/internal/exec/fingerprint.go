package exec

import (
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/once"
)

// print is the fingerprint of what came with e; 0: not to be compared.
func (x *Executor[TTx]) print(e *partition.Entry) int64 {
	key := x.key.Load()
	if key == nil {
		return 0
	}
	if x.o.Fingerprint == nil {
		return key.Of([]byte(e.Type), x.o.Without(e.Data))
	}
	what := x.o.Fingerprint(e.Message)
	if what == nil {
		return 0
	}
	return key.Of(what)
}

// printed is the fingerprint of a message that Options.Identity.Fingerprint may not be made for.
func (x *Executor[TTx]) printed(e *partition.Entry) (print int64) {
	defer func() {
		if recover() != nil {
			print = 0 // not known
		}
	}()
	return x.print(e)
}

// Seal is what a cache keeps of e where it is finished, for a run of the database's server.
func (x *Executor[TTx]) Seal(e *partition.Entry, server string) once.Entry {
	return once.Seal(x.key.Load(), server, x.o.Group, e.Identity(), x.printed(e))
}
