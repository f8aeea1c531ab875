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
	pingEvery   = time.Second      // interval of status messages to the server
	silentMost  = 3 * time.Second  // if the server does not answer for this time, the relay polls
	deadAfter   = 30 * time.Second // if the server does not answer for this time, the reader reconnects
	makeMost    = 10 * time.Minute // maximum wait of a new slot for open transactions, before a retry
	behindMost  = 2 * time.Second  // if the stream lags behind the WAL for this time, the relay polls
	standbyEach = 2 * time.Second  // interval of the checks whether the slot is free
	repairEach  = 5 * time.Second  // interval of the checks whether the publication has the outbox again
)

// ReaderOptions configures a Reader.
type ReaderOptions struct {
	Slot          string
	BeforeConnect func(context.Context, *pgx.ConnConfig) error
}

// Reader reads a logical replication slot and wakes a relay after each commit with outbox rows. It also
// reports whether every commit was read, so that the relay knows when it must poll.
type Reader struct {
	pg     *sqlexec.DB
	outbox *query.Outbox
	woken  func() // wakes the relays of this process
	config *pgx.ConnConfig
	o      ReaderOptions

	mu        sync.Mutex
	text      map[string]string       // the statements, set together with the name of the slot
	hears     bool                    // the stream is open
	elsewhere bool                    // another session reads the slot
	why       string                  // the reason why the stream is not open
	stop      context.CancelCauseFunc // ends the stream
	noted     noted
	inside    bool      // the stream is inside a transaction, so other commits may follow
	at        int64     // the position of the stream
	heardAt   time.Time // time of the last message of the server
	is        origin    // server and publication at the begin of the stream
	mark      int64     // the position that the stream must reach
	markAt    time.Time
	behind    bool // the stream did not reach mark within behindMost
}

// origin identifies the server and the publication of a stream.
type origin struct{ server, published string }

// NewReader returns a reader that connects with config.
func NewReader(pg *sqlexec.DB, out *query.Outbox, woken func(), config *pgx.ConnConfig,
	o ReaderOptions) *Reader {
	config.RuntimeParams["replication"] = "database"
	return &Reader{pg: pg, outbox: out, woken: woken, config: config, o: o}
}

// Unencrypted returns the hosts that the reader may connect to without TLS.
func (r *Reader) Unencrypted() []string { return sqlexec.Unencrypted(r.config) }

// Listening returns the state of the notifications. Quiet is true if the relay has read every commit. It is
// safe for concurrent use.
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

// Lease takes, renews and releases shards. It also removes the commits that the relay has read from noted,
// and checks that the stream is complete.
func (r *Reader) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	r.mu.Lock()
	hears, besides := r.hears, query.LeaseOptions{Standby: r.elsewhere}
	settle, watch := r.text["WALSettle"], r.text["WALWatch"]
	r.mu.Unlock()
	var seen string
	var reached int64
	var is origin
	if hears && ask.SnapshotBase != nil {
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

// watch ends the stream if its server or publication changed. It also checks that the stream does not lag
// behind reached, the position of the server.
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

// noteOpen records that the stream is open. The stream has every commit from now on, except commits of
// transactions up to number. After such a commit, the relays must look for rows.
func (r *Reader) noteOpen(database origin, number uint32, stop context.CancelCauseFunc) {
	r.mu.Lock()
	r.hears, r.elsewhere, r.why, r.stop, r.is = true, false, "", stop, database
	r.inside, r.at, r.mark, r.behind = false, 0, 0, false
	r.heardAt, r.markAt = time.Now(), time.Now()
	r.noted.begin(number)
	r.mu.Unlock()
	r.woken()
}

// noteClosed records that the stream is closed, and the reason. If elsewhere is true, another session reads
// the slot.
func (r *Reader) noteClosed(reason error, elsewhere bool) {
	r.mu.Lock()
	r.hears, r.elsewhere, r.why = false, elsewhere, ""
	if reason != nil {
		r.why = reason.Error()
	}
	r.mu.Unlock()
	r.woken()
}

// Receive processes a message of the stream, and wakes the relays after a commit that they have not read.
func (r *Reader) Receive(m Message) {
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

// position returns the position of the stream.
func (r *Reader) position() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// name sets the name of the slot, and its statements.
func (r *Reader) name(slot string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.o.Slot, r.text = slot, ReaderStatements(r.pg, slot)
}

// ReaderStatements returns the statements of a Reader, with the name of its slot.
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
