// This file has the cache in front of the database, and checks the options.

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
	mostCached = 8 << 10         // maximum size of a cached answer, encrypted, in bytes
	runValid   = 5 * time.Second // how long a known run of the database server is trusted
	unknownAge = time.Minute     // how long to cache an answer of unknown age: its mark may expire soon
	runTimeout = time.Second     // the time limit of a query for the run, and the pause after a failed one
)

// Runner is the part of a database that returns the current run of its server, and the retention of marks.
// Each store.Driver implements it.
type Runner interface {
	store.StatusReader
	SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error)
}

// Check returns an error if the options are invalid. Call it when your service starts. Nil options are valid.
// An endpoint with invalid options answers each request with 500.
func Check(ctx context.Context, db Runner, o *Options) error {
	if o == nil {
		return nil
	}
	if o.Keep < 0 {
		return fmt.Errorf(
			"httpidem.Options.Keep is %v: set how long answers are stored, or 0 for the retention of marks",
			o.Keep)
	}
	if o.Lease < 0 {
		return fmt.Errorf(
			"httpidem.Options.Lease is %v: set the time limit of a handler under Wrap, or 0 for a minute",
			o.Lease)
	}
	if o.MaxBody < 0 {
		return fmt.Errorf(
			"httpidem.Options.MaxBody is %d: set the maximum size of a body in bytes, or 0 for 1 MiB", o.MaxBody)
	}
	if o.Cache == nil {
		return nil
	}
	kept := o.Keep
	if kept == 0 {
		status, err := db.Status(ctx, store.StatusQuery{Retention: true})
		if err != nil {
			return fmt.Errorf("read the retention of marks: %w", err)
		}
		keep, err := retention.OrDefaults(status.Retention)
		if err != nil {
			return err
		}
		kept = keep.Marks
	}
	if ttl := o.Cache.TTL(); ttl <= 0 || ttl > kept {
		return fmt.Errorf("httpidem.Options.Cache has the TTL %v, and answers are stored for %v: give the cache a positive TTL within that time, or store answers longer (Keep)",
			ttl, kept)
	}
	return nil
}

// front is the cache in front of the database. It encrypts each entry with the run of the database server
// that was known before the statement that committed or read the answer. If a failover or a restore loses a
// commit, the run changes, and the entry of that commit is not found any more.
type front struct {
	cache once.Cache
	db    Runner
	keep  time.Duration
	names gather[string, string]

	querying chan struct{} // has a token while a request queries the run
	mu       sync.Mutex
	run      string
	seen     time.Time // when the last query began
	failed   time.Time // when a query last failed; guarded by looking
	session  string    // used instead of the run if the database has no server
}

// newFront returns nil if cache is nil.
func newFront(cache once.Cache, db Runner, keep time.Duration) *front {
	if cache == nil {
		return nil
	}
	f := &front{cache: cache, db: db, keep: keep, querying: make(chan struct{}, 1), session: rand.Text()}
	f.names.ask = func(ctx context.Context, keys []string) ([]string, error) {
		values := cache.Get(ctx, keys)
		if len(values) != len(keys) {
			return nil, errors.New("httpidem: the cache returned another number of values than keys")
		}
		return values, nil
	}
	return f
}

// slot is the key of an answer in the cache, with its encryption. A nil slot means that the answer is not
// cached.
type slot struct {
	*once.Sealed
	began time.Time
}

// get returns the cached answer, or the slot for it. After an error of the cache or the database it returns a
// miss, and the database decides.
func (f *front) get(ctx context.Context, secret func(context.Context) ([]byte, error),
	q *keyedRequest) (kept once.Answer, hit bool, at *slot) {
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
	value, err := f.names.query(ctx, sealed.Key)
	if err != nil || value == "" {
		return kept, false, at
	}
	kept, hit = sealed.Open(value, time.Now())
	return kept, hit, at
}

// put caches a committed answer. If wasRead is true, this request read the answer; otherwise it stored the
// answer. The entry must expire before the answer in the database does.
func (f *front) put(at *slot, kept once.Answer, wasRead bool) {
	if at == nil {
		return
	}
	stays := f.cache.TTL()
	switch {
	case !wasRead && f.keep > 0:
		stays = min(stays, f.keep)
	case wasRead && kept.Left < 0:
		return
	case wasRead && kept.Left > 0:
		stays = min(stays, kept.Left)
	case wasRead: // the scope has no Keep, so the age of the answer is unknown
		stays = min(stays, unknownAge)
	}
	if e := at.Close(kept, at.began.Add(stays)); len(e.Value) <= mostCached {
		f.cache.Put(e)
	}
}

// forget makes the next request query the run again. It is called after an outage of the database.
func (f *front) forget() {
	if f != nil {
		f.mu.Lock()
		f.seen = time.Time{}
		f.mu.Unlock()
	}
}

var errUnknown = errors.New("httpidem: the run of the database's server is not known")

// server returns the run of the database server. The result may be as old as runValid.
func (f *front) server(ctx context.Context) (string, error) {
	if run, ok := f.known(); ok {
		return run, nil
	}
	select {
	case f.querying <- struct{}{}:
		defer func() { <-f.querying }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	switch run, ok := f.known(); { // another request may have queried it meanwhile
	case ok:
		return run, nil
	case time.Since(f.failed) < runTimeout:
		return "", errUnknown
	}
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	began := time.Now()
	got, err := f.db.SyncConsumer(ctx, store.SyncRequest{Consumer: "http"})
	if err != nil {
		f.failed = time.Now() // this goroutine has the token of querying
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
	return f.run, !f.seen.IsZero() && time.Since(f.seen) < runValid
}
