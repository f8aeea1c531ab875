package httpidem

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

const (
	mostCached = 8 << 10         // bytes of an answer that is cached, sealed
	sure       = 5 * time.Second // for which the run of the database's server counts as known
	unknownAge = time.Minute     // for which an answer of unknown age is cached: its mark may soon be deleted
	patience   = time.Second     // of the look at it, and until the next one after one that failed
)

// A Runner tells which run of its server a database is on, and how long it keeps marks. Each store.Driver is
// one.
type Runner interface {
	store.Teller
	Attend(ctx context.Context, a store.Attend) (store.Attended, error)
}

// Check tells, before anything is served, what of o cannot be: call it where your service starts. Nil options
// are well. An endpoint with options that cannot be answers each request with 500.
func Check(ctx context.Context, db Runner, o *Options) error {
	if o == nil {
		return nil
	}
	if o.Keep < 0 {
		return fmt.Errorf(
			"httpidem.Options.Keep is %v: say for how long answers are kept, or 0 for as long as marks are",
			o.Keep)
	}
	if o.Lease < 0 {
		return fmt.Errorf(
			"httpidem.Options.Lease is %v: say how long a handler under Wrap may take, or 0 for a minute",
			o.Lease)
	}
	if o.MaxBody < 0 {
		return fmt.Errorf(
			"httpidem.Options.MaxBody is %d: say how many bytes a body may have, or 0 for 1 MiB", o.MaxBody)
	}
	if o.Seen == nil {
		return nil
	}
	kept := o.Keep
	if kept == 0 {
		status, err := db.Status(ctx, store.StatusQuery{Retention: true})
		if err != nil {
			return fmt.Errorf("look at the retention of marks: %w", err)
		}
		keep, err := retention.OrDefaults(status.Retention)
		if err != nil {
			return err
		}
		kept = keep.Marks
	}
	if ttl := o.Seen.TTL(); ttl <= 0 || ttl > kept {
		return fmt.Errorf("httpidem.Options.Seen remembers for %v, answers are kept for %v: give the cache a TTL above 0 and within that, or keep answers for longer (Keep)",
			ttl, kept)
	}
	return nil
}

// A front is the cache in front of the database. An entry is sealed with the run of the server that was known
// before the statement that committed or read the answer; so an answer whose commit is lost with a failover
// or a restore is found under no later run.
type front struct {
	cache once.Cache
	db    Runner
	keep  time.Duration
	names gather[string, string]

	looking chan struct{} // held by whoever looks at the run
	mu      sync.Mutex
	run     string
	seen    time.Time // when the look at it began
	failed  time.Time // when a look last did; whoever holds looking reads and writes it
	session string    // stands for the run of a database that has no server: entries count in this process
}

// newFront is nil without a cache.
func newFront(cache once.Cache, db Runner, keep time.Duration) *front {
	if cache == nil {
		return nil
	}
	f := &front{cache: cache, db: db, keep: keep, looking: make(chan struct{}, 1), session: rand.Text()}
	f.names.ask = func(ctx context.Context, keys []string) ([]string, error) {
		values := cache.Get(ctx, keys)
		if len(values) != len(keys) {
			return nil, errors.New("httpidem: the cache returned another number of values than keys")
		}
		return values, nil
	}
	return f
}

// A slot is where the answer to one request is in the cache. Nil: it is not cached.
type slot struct {
	*once.Sealed
	began time.Time
}

// get is the answer that the cache has, and where to put one otherwise. Whatever is wrong with the cache, or
// with the database while its run is asked for: it is not known, and the database decides.
func (f *front) get(ctx context.Context, secret func(context.Context) ([]byte, error),
	q *asked) (kept once.Answer, hit bool, at *slot) {
	if f == nil {
		return kept, false, nil
	}
	run, err := f.server(ctx)
	if err != nil {
		return kept, false, nil
	}
	began := time.Now()
	key, err := secret(ctx)
	if err != nil {
		return kept, false, nil
	}
	sealed, err := q.request.Seal(key, run)
	if err != nil {
		return kept, false, nil
	}
	at = &slot{sealed, began}
	value, err := f.names.one(ctx, sealed.Key)
	if err != nil || value == "" {
		return kept, false, at
	}
	kept, hit = sealed.Open(value, time.Now())
	return kept, hit, at
}

// put has an answer cached that is committed: this request's own, or one that was read. It must not be there
// for longer than the database would answer it.
func (f *front) put(at *slot, kept once.Answer, read bool) {
	if at == nil {
		return
	}
	stays := f.cache.TTL()
	switch {
	case !read && f.keep > 0:
		stays = min(stays, f.keep)
	case read && kept.Left < 0:
		return
	case read && kept.Left > 0:
		stays = min(stays, kept.Left)
	case read: // kept for as long as marks are: its age is not known
		stays = min(stays, unknownAge)
	}
	if e := at.Close(kept, at.began.Add(stays)); len(e.Value) <= mostCached {
		f.cache.Put(e)
	}
}

// forget has the run looked at before the cache counts again: the database was away.
func (f *front) forget() {
	if f != nil {
		f.mu.Lock()
		f.seen = time.Time{}
		f.mu.Unlock()
	}
}

var errUnknown = errors.New("httpidem: the run of the database's server is not known")

// server is the run of the database's server, as it was not long ago.
func (f *front) server(ctx context.Context) (string, error) {
	if run, ok := f.known(); ok {
		return run, nil
	}
	select {
	case f.looking <- struct{}{}:
		defer func() { <-f.looking }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	switch run, ok := f.known(); { // another request may have looked meanwhile
	case ok:
		return run, nil
	case time.Since(f.failed) < patience:
		return "", errUnknown
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	got, err := f.db.Attend(ctx, store.Attend{Consumer: "http"})
	if err != nil {
		f.failed = time.Now() // looking is ours
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run, f.seen = cmp.Or(got.Server, f.session), began
	return f.run, nil
}

func (f *front) known() (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.run, !f.seen.IsZero() && time.Since(f.seen) < sure
}
