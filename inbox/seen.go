// This file drops what was finished before, before it is taken: by the cache in front of the database, and
// by one read of the marks of all that has come. It guards nothing: each intake finds out for itself.

package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// trusting is after how many messages in a row, of which none was finished before, the marks are read no
// more: the read is a sixth of what a hundred messages cost the database that share a transaction. After a
// repeat, and with each partition that is gained, the marks are read again.
const trusting = 5000

// lookRest is the pause after a look without an answer. Each intake finds repeats by itself meanwhile.
const lookRest = 30 * time.Second

// A filter drops repeats. It belongs to one goroutine.
type filter[TTx any] struct {
	in      *Inbox[TTx]
	server  string    // the run of the database's server that was seen last; "": none yet, or it has none
	strange int       // messages in a row that were looked up, and not finished before
	until   time.Time // no look is made before, since one got no answer in time
}

// On says on which run of the database's server we are.
func (f *filter[TTx]) On(server string) { f.server = server }

// Distrust has it asked again whether messages were finished before.
func (f *filter[TTx]) Distrust() { f.strange = 0 }

// Cached drops what the cache knows to be finished, without a statement of the database. It is asked once for
// all of es.
func (f *filter[TTx]) Cached(ctx context.Context, es []*partition.Entry) {
	if f.in.o.Cache.Finished == nil {
		return
	}
	keys, sealed := make([]string, 0, len(es)), make([]string, 0, len(es))
	of := make([]*partition.Entry, 0, len(es))
	for _, e := range es {
		if e.Done || !f.cacheable(e) {
			continue
		}
		s := f.in.exec.Seal(e, f.on(e.Chain.Partition.Server))
		keys, of, sealed = append(keys, s.Key), append(of, e), append(sealed, s.Value)
	}
	if len(keys) == 0 {
		return
	}
	values := f.in.o.Cache.Finished.Get(ctx, keys)
	for i := range min(len(values), len(keys)) {
		if values[i] == sealed[i] {
			of[i].Done = true
			f.in.repeated(of[i], true)
		}
	}
}

// Marked looks all of es up in one read. Known: all that was finished is.
func (f *filter[TTx]) Marked(ctx context.Context, es []*partition.Entry) (known bool) {
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
	seen, err := f.in.db.Seen(ctx, f.in.group, ids)
	if f.in.did(ctx, lookingUp, err); err != nil {
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
		if f.strange = 0; f.in.exec.Harmless(of[i], v) {
			of[i].Done = true
			f.Remember(of[i])
			f.in.repeated(of[i], false)
		}
	}
	return true
}

// wary tells whether it is to be asked for es.
func (f *filter[TTx]) wary(es []*partition.Entry) bool {
	suspected := func(e *partition.Entry) bool { return e.Chain.Partition.Tried != nil }
	return f.strange < trusting || slices.ContainsFunc(es, suspected)
}

// Remember has the cache keep that e is finished: its mark was read, or is committed.
func (f *filter[TTx]) Remember(e *partition.Entry) {
	if f.in.o.Cache.Finished != nil && !f.in.exec.AsksBeside() && f.cacheable(e) {
		f.in.o.Cache.Finished.Put(f.in.exec.Seal(e, f.on(e.Server)))
	}
}

// on is the run of the server that a message was taken on. Where the database cannot tell, it is the session
// of this process: another process may find another database.
func (f *filter[TTx]) on(server string) string { return cmp.Or(server, f.server, f.in.session) }

// cacheable reports whether a repeat of a message is dropped without an answer. Stored answers are in the
// database.
func (f *filter[TTx]) cacheable(e *partition.Entry) (yes bool) {
	if !e.Readable() || !f.in.exec.HasKey() {
		return false
	}
	if f.in.o.Identity.Again == nil {
		return true
	}
	_ = failure.Run(func() error {
		yes = !f.in.o.Identity.Again(e.Message)
		return nil
	}) // else the attempt at it says so
	return yes
}

// repeated counts a message that was dropped because it was finished before; cached: the cache had it.
func (in *Inbox[TTx]) repeated(e *partition.Entry, cached bool) {
	in.count(func(h *Health) {
		h.Duplicates++
		if cached {
			h.Cached++
		}
	})
	in.tel.Count(e.Topic, decide.Duplicate.String())
}

// checkCache refuses a cache that remembers for longer than marks do.
func (in *Inbox[TTx]) checkCache(marks time.Duration) error {
	if in.o.Cache.Finished == nil || in.o.Cache.Finished.TTL() > 0 && in.o.Cache.Finished.TTL() <= marks {
		return nil
	}
	return fmt.Errorf("inbox.Options.Cache.Finished remembers for %v, marks are kept for %v: give the cache a TTL above 0 and within that, or keep marks for longer",
		in.o.Cache.Finished.TTL(), marks)
}
