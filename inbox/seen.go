// This file drops duplicates early: by the cache in front of the database, and by one read of the marks of
// all received messages. It only saves work: each attempt checks the mark itself.

package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// trusting is the number of messages in a row without a duplicate after which the marks are not read early
// any more. The read is a sixth of the database's work for a hundred messages that share a transaction. After
// a duplicate, and with each gained partition, the marks are read again.
const trusting = 5000

// lookRest is the pause after a read without an answer. Each attempt checks the mark itself meanwhile.
const lookRest = 30 * time.Second

// filter drops duplicates. It belongs to one goroutine.
type filter[TTx any] struct {
	in       *Inbox[TTx]
	server   string    // the last known run of the database server; "": none yet, or it has none
	newInRow int       // messages in a row that were looked up and were no duplicates
	until    time.Time // no read before this time, since one got no answer in time
}

// On notes the current run of the database server.
func (f *filter[TTx]) On(server string) { f.server = server }

// Distrust makes the filter read marks again.
func (f *filter[TTx]) Distrust() { f.newInRow = 0 }

// Cached drops messages that are finished according to the cache, without a statement of the database. It
// asks the cache once for all of es.
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

// Marked drops duplicates among es with one read of the marks. It returns true if all duplicates are found.
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
	f.newInRow += len(ids)
	for i, v := range seen {
		if v.Outcome == store.Fresh {
			continue
		}
		if f.newInRow = 0; f.in.exec.DropsDuplicate(of[i], v) {
			of[i].Done = true
			f.Remember(of[i])
			f.in.repeated(of[i], false)
		}
	}
	return true
}

// wary reports whether the marks of es are to be read.
func (f *filter[TTx]) wary(es []*partition.Entry) bool {
	suspected := func(e *partition.Entry) bool { return e.Chain.Partition.Tried != nil }
	return f.newInRow < trusting || slices.ContainsFunc(es, suspected)
}

// Remember adds e to the cache, after its mark was read or committed.
func (f *filter[TTx]) Remember(e *partition.Entry) {
	if f.in.o.Cache.Finished != nil && !f.in.exec.HasLegacyDedup() && f.cacheable(e) {
		f.in.o.Cache.Finished.Put(f.in.exec.Seal(e, f.on(e.Server)))
	}
}

// on returns the run of the database server on which a message was handled. If that is not known, it returns
// the session of this process: another process may have another database.
func (f *filter[TTx]) on(server string) string { return cmp.Or(server, f.server, f.in.session) }

// cacheable reports whether duplicates of a message need no answer. Stored answers are in the database.
func (f *filter[TTx]) cacheable(e *partition.Entry) bool {
	if !e.Readable() || !f.in.exec.HasKey() {
		return false
	}
	announces, err := f.in.exec.Announces(e)
	return err == nil && !announces
}

// repeated counts a dropped duplicate. Cached reports that the cache had it.
func (in *Inbox[TTx]) repeated(e *partition.Entry, cached bool) {
	in.count(func(h *Health) {
		h.Duplicates++
		if cached {
			h.Cached++
		}
	})
	in.tel.Count(e.Topic, decide.Duplicate.String())
}

// checkCache returns an error if the cache keeps entries for longer than marks are kept.
func (in *Inbox[TTx]) checkCache(marks time.Duration) error {
	if in.o.Cache.Finished == nil || in.o.Cache.Finished.TTL() > 0 && in.o.Cache.Finished.TTL() <= marks {
		return nil
	}
	return fmt.Errorf("inbox.Options.Cache.Finished remembers for %v, marks are kept for %v: give the cache a TTL above 0 and within that, or keep marks for longer",
		in.o.Cache.Finished.TTL(), marks)
}
