// This file drops duplicates early: by the cache in front of the database, and by one read of the marks of
// all received messages. This only saves work, because each attempt checks the mark again.

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

// enoughNew is the number of new messages in a row after which the filter stops reading marks. For a hundred
// messages that share a transaction, the read is a sixth of the database's work. The filter reads marks again
// after a duplicate, and with each gained partition.
const enoughNew = 5000

// lookRest is the pause after a read that timed out. Meanwhile each attempt checks its mark.
const lookRest = 30 * time.Second

// filter drops duplicates. Only one goroutine uses it.
type filter[TTx any] struct {
	in       *Inbox[TTx]
	server   string    // id of the current run of the database server; "" if unknown
	newInRow int       // messages in a row that had no mark
	until    time.Time // no read before this time, because a read timed out
}

// On sets the id of the current run of the database server.
func (f *filter[TTx]) On(server string) { f.server = server }

// ReadAgain makes the filter read marks again.
func (f *filter[TTx]) ReadAgain() { f.newInRow = 0 }

// Cached drops messages that are finished according to the cache. It reads the cache once for all of es, and
// does not call the database.
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
		s := f.in.exec.Seal(e, f.runID(e.Chain.Partition.Server))
		keys, of, sealed = append(keys, s.Key), append(of, e), append(sealed, s.Value)
	}
	if len(keys) == 0 {
		return
	}
	values := f.in.o.Cache.Finished.Get(ctx, keys)
	for i := range min(len(values), len(keys)) {
		if values[i] == sealed[i] {
			of[i].Done = true
			f.in.countRepeated(of[i], true)
		}
	}
}

// Marked drops duplicates among es with one read of the marks. It returns true if it found all duplicates.
func (f *filter[TTx]) Marked(ctx context.Context, es []*partition.Entry) (known bool) {
	if !f.mustRead(es) || time.Now().Before(f.until) {
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
	if f.in.recordResult(ctx, lookingUp, err); err != nil {
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
			f.in.countRepeated(of[i], false)
		}
	}
	return true
}

// mustRead reports whether the filter has to read the marks of es.
func (f *filter[TTx]) mustRead(es []*partition.Entry) bool {
	suspected := func(e *partition.Entry) bool { return e.Chain.Partition.Tried != nil }
	return f.newInRow < enoughNew || slices.ContainsFunc(es, suspected)
}

// Remember adds e to the cache, after its mark was read or committed.
func (f *filter[TTx]) Remember(e *partition.Entry) {
	if f.in.o.Cache.Finished != nil && !f.in.exec.HasLegacyDedup() && f.cacheable(e) {
		f.in.o.Cache.Finished.Put(f.in.exec.Seal(e, f.runID(e.Server)))
	}
}

// runID returns the id of the run of the database server on which a message was handled. If the id is
// unknown, runID returns the session of this process, because another process may have another database.
func (f *filter[TTx]) runID(server string) string { return cmp.Or(server, f.server, f.in.session) }

// cacheable reports whether a duplicate of e needs no answer. Answers are only in the database.
func (f *filter[TTx]) cacheable(e *partition.Entry) bool {
	if !e.Readable() || !f.in.exec.HasKey() {
		return false
	}
	announces, err := f.in.exec.Announces(e)
	return err == nil && !announces
}

// countRepeated counts a dropped duplicate. If cached is true, the cache had its identity.
func (in *Inbox[TTx]) countRepeated(e *partition.Entry, cached bool) {
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
