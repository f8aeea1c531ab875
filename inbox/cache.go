package inbox

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
)

// dropCached drops what the cache knows to be finished, without a statement of the database. It is asked once
// for all of es.
func (in *Inbox[TTx]) dropCached(ctx context.Context, es []*partition.Entry) {
	if in.o.Front.Seen == nil {
		return
	}
	keys, of, sealed := make([]string, 0, len(es)), make([]*partition.Entry, 0, len(es)), make([]string, 0, len(es))
	for _, e := range es {
		if e.Done || !in.cacheable(e) {
			continue
		}
		s := in.exec.Seal(e, cmp.Or(e.Chain.Partition.Server, in.server()))
		keys, of, sealed = append(keys, s.Key), append(of, e), append(sealed, s.Value)
	}
	if len(keys) == 0 {
		return
	}
	values := in.o.Front.Seen.Get(ctx, keys)
	for i := range min(len(values), len(keys)) {
		if values[i] == sealed[i] {
			of[i].Done = true
			in.count(func(h *Health) { h.Duplicates, h.Cached = h.Duplicates+1, h.Cached+1 })
			in.tel.Count(of[i].Topic, decide.Duplicate.String())
		}
	}
}

// remember has the cache keep that e is finished: its mark was read, or is committed.
func (in *Inbox[TTx]) remember(e *partition.Entry) {
	if in.o.Front.Seen != nil && !in.exec.AsksBeside() && in.cacheable(e) {
		in.o.Front.Seen.Put(in.exec.Seal(e, cmp.Or(e.Server, in.server())))
	}
}

// cacheable tells of a message whether a repeat of it is dropped and no more: what is said again for a repeat
// is in the database.
func (in *Inbox[TTx]) cacheable(e *partition.Entry) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false // the attempt at it will say so
		}
	}()
	return e.Readable() && in.exec.Key() != nil && (in.o.Identity.Again == nil || !in.o.Identity.Again(e.Message))
}

// server is the run of the database's server that was seen last. Where the database cannot tell, it is the
// session of this process: behind it another database may be there.
func (in *Inbox[TTx]) server() string { return cmp.Or(in.seenOn, in.session) }

// checkCache refuses a cache that remembers for longer than marks do.
func (in *Inbox[TTx]) checkCache(marks time.Duration) error {
	if in.o.Front.Seen == nil || in.o.Front.Seen.TTL() > 0 && in.o.Front.Seen.TTL() <= marks {
		return nil
	}
	return fmt.Errorf("inbox.Options.Front.Seen remembers for %v, marks are kept for %v: give the cache a TTL above 0 and within that, or keep marks for longer",
		in.o.Front.Seen.TTL(), marks)
}
