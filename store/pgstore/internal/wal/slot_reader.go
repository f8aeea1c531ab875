package wal

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/query"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

const (
	pingEvery   = time.Second      // the server is asked how far it is, and told how far we are
	silentMost  = 3 * time.Second  // without an answer it is not believed that nothing was committed
	deadAfter   = 30 * time.Second // and then the connection is given up
	makeMost    = 10 * time.Minute // for which a slot may wait for open transactions; then it is tried again
	behindMost  = 2 * time.Second  // for which the stream may lag behind the server's WAL
	standbyEach = 2 * time.Second  // between two looks whether the slot became free
	repairEach  = 5 * time.Second  // between two looks whether a publication has the outbox again
)

// ReaderOptions are which slot to read, and how to connect.
type ReaderOptions struct {
	Slot          string
	BeforeConnect func(context.Context, *pgx.ConnConfig) error
}

// A Reader hears of commits from a logical replication slot.
type Reader struct {
	pg     *sqlexec.DB
	outbox *query.Outbox
	woken  func() // has the relays of this process look
	config *pgx.ConnConfig
	o      ReaderOptions

	mu        sync.Mutex
	text      map[string]string // the statements, once the slot has its name
	hears     bool
	elsewhere bool
	why       string
	stop      context.CancelCauseFunc // ends the stream
	noted     noted
	inside    bool      // a transaction is being told of: what was committed after it is told of later
	at        int64     // how far the stream is
	heardAt   time.Time // the server
	is        origin    // when the stream began
	mark      int64     // that the stream has to come to
	markAt    time.Time
	behind    bool // it has not for long
}

// origin is what a stream depends on.
type origin struct{ server, published string }

// NewReader is a reader that connects with config.
func NewReader(pg *sqlexec.DB, out *query.Outbox, woken func(), config *pgx.ConnConfig,
	o ReaderOptions) *Reader {
	config.RuntimeParams["replication"] = "database"
	return &Reader{pg: pg, outbox: out, woken: woken, config: config, o: o}
}

// Unencrypted names the hosts that may be spoken to without TLS.
func (r *Reader) Unencrypted() []string { return sqlexec.Unencrypted(r.config) }

// Listening returns the state of the notifications. It is safe for concurrent use.
func (r *Reader) Listening() store.Listening {
	r.mu.Lock()
	defer r.mu.Unlock()
	quiet := r.hears && !r.inside && !r.behind && r.noted.none() && time.Since(r.heardAt) < silentMost
	h := store.Listening{Quiet: quiet, Elsewhere: r.elsewhere, Why: r.why}
	switch {
	case !r.hears || h.Why != "":
	case r.behind:
		h.Why = fmt.Sprintf("slot %s lags behind the WAL for more than %v", r.o.Slot, behindMost)
	case time.Since(r.heardAt) >= silentMost:
		h.Why = fmt.Sprintf("the server has not answered the reader of slot %s for more than %v",
			r.o.Slot, silentMost)
	}
	return h
}

// Lease is the store's. By the way it learns what its looks have seen, and whether the stream still tells of
// everything.
func (r *Reader) Lease(ctx context.Context, ask store.Ask) (store.Leased, error) {
	r.mu.Lock()
	hears, besides := r.hears, query.Besides{Standby: r.elsewhere}
	settle, watch := r.text["WALSettle"], r.text["WALWatch"]
	r.mu.Unlock()
	var seen string
	var reached int64
	var is origin
	if hears && ask.Look != nil {
		besides.First = append(besides.First, sqlexec.Call{SQL: settle}.Into(&seen))
	}
	if hears && ask.Owner != "" && !ask.Leave {
		besides.First = append(besides.First,
			sqlexec.Call{SQL: watch}.Into(&reached, &is.server, &is.published))
	}
	got, err := r.outbox.Lease(ctx, ask, besides)
	if err != nil {
		return got, err
	}
	if seen != "" {
		s, err := parseSnapshot(seen)
		if err != nil {
			return got, fmt.Errorf("wal: %w", err)
		}
		r.mu.Lock()
		r.noted.settle(s, time.Now())
		r.mu.Unlock()
	}
	if is != (origin{}) {
		r.watch(reached, is)
	}
	return got, nil
}

// watch compares what the stream depends on with what it was, and its place with an earlier one of the
// server's.
func (r *Reader) watch(reached int64, is origin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	switch {
	case !r.hears:
	case is.server != r.is.server:
		r.stop(fmt.Errorf("%w: the slot is read from another server than the table", errChanged))
	case is.published != r.is.published:
		r.stop(fmt.Errorf("%w: publication %s was changed", errChanged, r.o.Slot))
	case r.at >= r.mark:
		r.behind, r.mark, r.markAt = false, reached, now
	case now.Sub(r.markAt) > behindMost:
		r.behind = true
	}
}

// begins says that the stream tells of whatever is committed from here on, but for transactions up to that
// number.
func (r *Reader) begins(is origin, number uint32, stop context.CancelCauseFunc) {
	r.mu.Lock()
	r.hears, r.elsewhere, r.why, r.stop, r.is = true, false, "", stop, is
	r.inside, r.at, r.mark, r.behind = false, 0, 0, false
	r.heardAt, r.markAt = time.Now(), time.Now()
	r.noted.begin(number)
	r.mu.Unlock()
	r.woken()
}

// ends says that from here on commits are not heard of.
func (r *Reader) ends(why error, elsewhere bool) {
	r.mu.Lock()
	r.hears, r.elsewhere, r.why = false, elsewhere, ""
	if why != nil {
		r.why = why.Error()
	}
	r.mu.Unlock()
	r.woken()
}

// Told takes up what the stream told.
func (r *Reader) Told(m Message) {
	r.mu.Lock()
	r.heardAt = time.Now()
	look := false
	switch m.Kind {
	case Begin:
		r.inside = true
		look = r.noted.add(m.XID, r.heardAt)
	case Commit:
		r.inside, r.at = false, max(r.at, m.end)
	case walAlive:
		if !r.inside {
			r.at = max(r.at, m.end)
		}
	}
	r.mu.Unlock()
	if look {
		r.woken()
	}
}

// place is how far the stream is.
func (r *Reader) place() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// name gives the slot its name, and the statements that name.
func (r *Reader) name(slot string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.o.Slot, r.text = slot, ReaderStatements(r.pg, slot)
}

// ReaderStatements are the statements of a Reader of that slot.
func ReaderStatements(pg *sqlexec.DB, slot string) map[string]string {
	out := map[string]string{}
	parts := strings.NewReplacer("/*server*/", pg.SQL["WALServer"], "/*published*/", pg.SQL["WALPublished"])
	names := strings.NewReplacer("$slot", sqlexec.Quote(slot), "$schema", sqlexec.Quote(pg.Schema),
		"$publication", sqlexec.Quoted(slot))
	for name, text := range pg.SQL {
		if strings.HasPrefix(name, "WAL") {
			out[name] = names.Replace(parts.Replace(text))
		}
	}
	return out
}
