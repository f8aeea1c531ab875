package slot

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/outbox"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

const (
	pingEvery   = time.Second      // the server is asked how far it is, and told how far we are
	silentMost  = 3 * time.Second  // without an answer it is not believed that nothing was committed
	deadAfter   = 30 * time.Second // and then the connection is given up
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
	pg     *pgrun.DB
	outbox *outbox.Outbox
	woken  func() // has the relays of this process look
	Config *pgx.ConnConfig
	o      ReaderOptions

	mu        sync.Mutex
	Text      map[string]string // the statements, once the slot has its name
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
func NewReader(pg *pgrun.DB, out *outbox.Outbox, woken func(), config *pgx.ConnConfig, o ReaderOptions) *Reader {
	config.RuntimeParams["replication"] = "database"
	return &Reader{pg: pg, outbox: out, woken: woken, Config: config, o: o}
}

// Unencrypted names the hosts that may be spoken to without TLS.
func (w *Reader) Unencrypted() []string { return pgrun.Unencrypted(w.Config) }

// Hearing may be called at any time from any goroutine.
func (w *Reader) Hearing() store.Hearing {
	w.mu.Lock()
	defer w.mu.Unlock()
	quiet := w.hears && !w.inside && !w.behind && w.noted.none() && time.Since(w.heardAt) < silentMost
	h := store.Hearing{Quiet: quiet, Elsewhere: w.elsewhere, Why: w.why}
	switch {
	case !w.hears || h.Why != "":
	case w.behind:
		h.Why = fmt.Sprintf("slot %s lags behind the WAL for more than %v", w.o.Slot, behindMost)
	case time.Since(w.heardAt) >= silentMost:
		h.Why = fmt.Sprintf("the server has not answered the reader of slot %s for more than %v", w.o.Slot, silentMost)
	}
	return h
}

// Lease is the store's. By the way it learns what its looks have seen, and whether the stream still tells of
// everything.
func (w *Reader) Lease(ctx context.Context, ask store.Ask) (store.Leased, error) {
	w.mu.Lock()
	hears, besides := w.hears, outbox.Besides{Standby: w.elsewhere}
	settle, watch := w.Text["WALSettle"], w.Text["WALWatch"]
	w.mu.Unlock()
	var seen string
	var reached int64
	var is origin
	if hears && ask.Look != nil {
		besides.First = append(besides.First, pgrun.Call{SQL: settle}.Into(&seen))
	}
	if hears && ask.Owner != "" && !ask.Leave {
		besides.First = append(besides.First, pgrun.Call{SQL: watch}.Into(&reached, &is.server, &is.published))
	}
	got, err := w.outbox.Lease(ctx, ask, besides)
	if err != nil {
		return got, err
	}
	if seen != "" {
		s, err := parseSnapshot(seen)
		if err != nil {
			return got, fmt.Errorf("wal: %w", err)
		}
		w.mu.Lock()
		w.noted.settle(s, time.Now())
		w.mu.Unlock()
	}
	if is != (origin{}) {
		w.watch(reached, is)
	}
	return got, nil
}

// watch compares what the stream depends on with what it was, and its place with an earlier one of the
// server's.
func (w *Reader) watch(reached int64, is origin) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	switch {
	case !w.hears:
	case is.server != w.is.server:
		w.stop(fmt.Errorf("%w: the slot is read from another server than the table", errChanged))
	case is.published != w.is.published:
		w.stop(fmt.Errorf("%w: publication %s was changed", errChanged, w.o.Slot))
	case w.at >= w.mark:
		w.behind, w.mark, w.markAt = false, reached, now
	case now.Sub(w.markAt) > behindMost:
		w.behind = true
	}
}

// begins says that the stream tells of whatever is committed from here on, but for transactions up to that
// number.
func (w *Reader) begins(is origin, number uint32, stop context.CancelCauseFunc) {
	w.mu.Lock()
	w.hears, w.elsewhere, w.why, w.stop, w.is = true, false, "", stop, is
	w.inside, w.at, w.mark, w.behind = false, 0, 0, false
	w.heardAt, w.markAt = time.Now(), time.Now()
	w.noted.begin(number)
	w.mu.Unlock()
	w.woken()
}

// ends says that from here on commits are not heard of.
func (w *Reader) ends(why error, elsewhere bool) {
	w.mu.Lock()
	w.hears, w.elsewhere, w.why = false, elsewhere, ""
	if why != nil {
		w.why = why.Error()
	}
	w.mu.Unlock()
	w.woken()
}

// Told takes up what the stream told.
func (w *Reader) Told(m Message) {
	w.mu.Lock()
	w.heardAt = time.Now()
	look := false
	switch m.Kind {
	case Begin:
		w.inside = true
		look = w.noted.add(m.XID, w.heardAt)
	case Commit:
		w.inside, w.at = false, max(w.at, m.end)
	case walAlive:
		if !w.inside {
			w.at = max(w.at, m.end)
		}
	}
	w.mu.Unlock()
	if look {
		w.woken()
	}
}

// Place is how far the stream is.
func (w *Reader) Place() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// Name gives the slot its name, and the statements that name.
func (w *Reader) Name(slot string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.o.Slot, w.Text = slot, map[string]string{}
	for name, text := range w.pg.SQL {
		if strings.HasPrefix(name, "WAL") {
			w.Text[name] = w.fill(text)
		}
	}
}

func (w *Reader) fill(text string) string {
	text = strings.NewReplacer("/*server*/", w.pg.SQL["WALServer"], "/*published*/", w.pg.SQL["WALPublished"]).Replace(text)
	return strings.NewReplacer("$slot", column.Quote(w.o.Slot), "$schema", column.Quote(w.pg.Schema), "$publication", column.Quoted(w.o.Slot)).Replace(text)
}
