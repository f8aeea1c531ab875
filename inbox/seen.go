// This file drops what was finished before, before it is taken: by the cache in front of the database, and
// by one read of the marks of all that has come. It guards nothing: each intake finds out for itself.

package inbox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// trusting is after how many messages in a row, of which none was finished before, the marks are read no
// more: the read is a sixth of what a hundred messages cost the database that share a transaction. After a
// repeat, and with each partition that is gained, the marks are read again.
const trusting = 5000

// lookRest is the pause after a look without an answer. Each intake finds repeats by itself meanwhile.
const lookRest = 30 * time.Second

// A seenConfig is what a Filter goes by.
type seenConfig struct {
	Group string // the consumer
	DB    seenStore
	// of this inbox: stands for the database's server where that cannot tell
	Session string
	Cache   once.Cache               // nil: none
	Again   func(skald.Message) bool // of repeats that have something sent again; nil: of none
	Attempt attempt

	Repeat func(e *partition.Entry, cached bool) // is told of each that is dropped
	Read   func(ctx context.Context, err error)  // is told how a read of marks ended
}

// A seenStore has the marks.
type seenStore interface {
	Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error)
}

// An attempt knows what an attempt at a message would find.
type attempt interface {
	Seal(e *partition.Entry, server string) once.Entry
	Harmless(e *partition.Entry, v store.Verdict) bool // nothing more is to be done about this repeat
	HasKey() bool                                      // of fingerprints
	AsksBeside() bool                                  // a table of the user's, too
}

// A filter drops repeats. It belongs to one goroutine.
type filter struct {
	o       seenConfig
	server  string    // the run of the database's server that was seen last; "": none yet, or it has none
	strange int       // messages in a row that were looked up, and not finished before
	until   time.Time // no look is made before, since one got no answer in time
}

// newSeen is a Filter.
func newSeen(o seenConfig) *filter { return &filter{o: o} }

// On says on which run of the database's server we are.
func (f *filter) On(server string) { f.server = server }

// Distrust has it asked again whether messages were finished before.
func (f *filter) Distrust() { f.strange = 0 }

// Cached drops what the cache knows to be finished, without a statement of the database. It is asked once for
// all of es.
func (f *filter) Cached(ctx context.Context, es []*partition.Entry) {
	if f.o.Cache == nil {
		return
	}
	keys, sealed := make([]string, 0, len(es)), make([]string, 0, len(es))
	of := make([]*partition.Entry, 0, len(es))
	for _, e := range es {
		if e.Done || !f.cacheable(e) {
			continue
		}
		s := f.o.Attempt.Seal(e, f.on(e.Chain.Partition.Server))
		keys, of, sealed = append(keys, s.Key), append(of, e), append(sealed, s.Value)
	}
	if len(keys) == 0 {
		return
	}
	values := f.o.Cache.Get(ctx, keys)
	for i := range min(len(values), len(keys)) {
		if values[i] == sealed[i] {
			of[i].Done = true
			f.o.Repeat(of[i], true)
		}
	}
}

// Marked looks all of es up in one read. Known: all that was finished is.
func (f *filter) Marked(ctx context.Context, es []*partition.Entry) (known bool) {
	if !f.wary(es) || time.Now().Before(f.until) {
		return false
	}
	ids, of := make([]store.Identity, 0, len(es)), make([]*partition.Entry, 0, len(es))
	for _, e := range es {
		if e.Readable() && !e.Done {
			ids, of = append(ids, e.Given), append(of, e)
		}
	}
	if len(ids) == 0 {
		return true
	}
	seen, err := f.o.DB.Seen(ctx, f.o.Group, ids)
	if f.o.Read(ctx, err); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			f.until = time.Now().Add(lookRest)
		}
		return false
	}
	f.strange += len(ids)
	for i, v := range seen {
		if v.Outcome == store.Fresh {
			continue
		}
		if f.strange = 0; f.o.Attempt.Harmless(of[i], v) {
			of[i].Done = true
			f.Remember(of[i])
			f.o.Repeat(of[i], false)
		}
	}
	return true
}

// wary tells whether it is to be asked for es.
func (f *filter) wary(es []*partition.Entry) bool {
	suspected := func(e *partition.Entry) bool { return e.Chain.Partition.Tried != nil }
	return f.strange < trusting || slices.ContainsFunc(es, suspected)
}

// Remember has the cache keep that e is finished: its mark was read, or is committed.
func (f *filter) Remember(e *partition.Entry) {
	if f.o.Cache != nil && !f.o.Attempt.AsksBeside() && f.cacheable(e) {
		f.o.Cache.Put(f.o.Attempt.Seal(e, f.on(e.Server)))
	}
}

// on is the run of the server that a message was taken on. Where the database cannot tell, it is the session
// of this process: another process may find another database.
func (f *filter) on(server string) string { return cmp.Or(server, f.server, f.o.Session) }

// cacheable tells of a message whether a repeat of it is dropped and no more: what is said again for a repeat
// is in the database.
func (f *filter) cacheable(e *partition.Entry) (yes bool) {
	if !e.Readable() || !f.o.Attempt.HasKey() {
		return false
	}
	if f.o.Again == nil {
		return true
	}
	_ = failure.Run(func() error {
		yes = !f.o.Again(e.Message)
		return nil
	}) // else the attempt at it says so
	return yes
}
