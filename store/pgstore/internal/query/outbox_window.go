package query

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Tick is a position in the outbox: a stored snapshot, which includes all rows that were committed before it.
// The text of a Tick is its ID, a dash and its random token. A restored database may use an ID again, but
// never a token.
type Tick struct {
	ID    int64 // 0 is the beginning
	Token string
}

// ParseTick reads the text of a tick; "" is the beginning.
func ParseTick(s string) (Tick, error) {
	if s == "" {
		return Tick{}, nil
	}
	id, token, ok := strings.Cut(s, "-")
	n, err := strconv.ParseInt(id, 10, 64)
	if !ok || err != nil || n <= 0 {
		return Tick{}, fmt.Errorf("%w: %.40q is not a tick", store.ErrMoved, s)
	}
	return Tick{n, token}, nil
}

func (t Tick) String() string { return strconv.FormatInt(t.ID, 10) + "-" + t.Token }

// look has the calls that look for new rows and open a window for them, and their results.
type look struct {
	Calls []sqlexec.Call
	Next  Tick // the new tick; its ID is 0 if there are no new rows

	base  string
	from  Tick
	there int
}

// Look returns the calls that look for rows after base. If suffix is not empty, Look adds a dot and the
// suffix to the token of the new tick.
func (o *Outbox) Look(base, suffix string) (*look, error) {
	from, err := ParseTick(base)
	if err != nil {
		return nil, err
	}
	l := &look{base: base, from: from, Next: Tick{Token: rand.Text()}}
	if suffix != "" {
		l.Next.Token += "." + suffix
	}
	snapshot := o.pg.Call("Snapshot", from.ID, from.Token, l.Next.Token).Into(&l.there, &l.Next.ID)
	l.Calls = []sqlexec.Call{o.walk(), snapshot}
	return l, nil
}

// Tip returns the end of the window that the look opened, or base if there are no new rows. It returns
// store.ErrMoved if base is missing in the database.
func (l *look) Tip() (string, error) {
	switch {
	case l.base != "" && l.there == 0:
		return "", fmt.Errorf("tick: %w: tick %d is not there", store.ErrMoved, l.from.ID)
	case l.Next.ID == 0:
		return l.base, nil
	}
	return l.Next.String(), nil
}

// Pull reads a page of up to limit rows of a window, in one round trip. It needs two if the first row is too
// large for PullLight.
func (o *Outbox) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	base, err := ParseTick(w.Base)
	if err != nil {
		return store.Page{}, fmt.Errorf("pull: %w", err)
	}
	tip, err := ParseTick(w.Tip)
	if err != nil {
		return store.Page{}, fmt.Errorf("pull: %w", err)
	}
	if limit < 1 || w.Tip == w.Base || w.Tip == "" {
		return store.Page{Done: true}, o.pg.Err
	}
	p, err := o.pullPage(ctx, base, tip, w, limit)
	if err == nil && p.cut && len(p.rows) == 0 {
		p, err = o.pullPage(ctx, base, tip, w, limit)
	}
	if err != nil {
		return store.Page{}, err
	}
	done := len(p.rows) == 0 || p.last && len(p.rows) <= limit
	if p.light {
		done = !p.cut && len(p.rows) <= limit
	}
	return store.Page{Rows: p.rows[:min(limit, len(p.rows))], Done: done}, nil
}

// pullPage reads up to limit+1 rows. The additional row shows that the window has more rows than the page.
func (o *Outbox) pullPage(ctx context.Context, base, tip Tick, w store.Window, limit int) (*pulled, error) {
	var there, want int
	for _, t := range []Tick{base, tip} {
		if t.ID != 0 {
			want++
		}
	}
	var seq int64
	p := &pulled{rows: make([]store.Row, 0, min(limit, usualPage)+1),
		lightest: min(store.RowBytes, lightPage/(limit+1))}
	known, walk := o.bases.get(base)
	walk = walk && w.After >= known
	p.light = walk && !o.heavy.Load()
	if p.light {
		o.heavy.Store(true) // until PullLight succeeds
	}
	pull := o.pull(base, tip, w, limit+1, walk, p)
	pull.Scan = p.add
	err := o.pg.Short(ctx, "pull", o.walk(),
		o.pg.Call("Snapshots", base.ID, base.Token, tip.ID, tip.Token).Into(&there, &seq), pull)
	switch {
	case err != nil:
		return nil, err
	case there != want:
		return nil, fmt.Errorf("pull: %w: a tick of the window is not there", store.ErrMoved)
	}
	o.bases.put(base, seq)
	if walk {
		o.heavy.Store(p.heavy)
	}
	return p, nil
}

// pull returns the call of the fastest statement that can read the page.
func (o *Outbox) pull(base, tip Tick, w store.Window, limit int, walk bool, p *pulled) sqlexec.Call {
	name, args := "Pull", []any{base.ID, base.Token, tip.ID, tip.Token, w.After, int32(limit)}
	switch {
	case p.light:
		name, args = "PullLight", append(args[2:], int64(p.lightest))
	case walk:
		name, args = "PullOn", args[2:]
	}
	if w.Buckets != nil {
		name, args = name+"Some", append(args, Bitmap(w.Buckets))
	}
	return o.pg.Call(name, args...)
}

// usualPage is the number of rows for which Pull allocates memory before it reads.
const usualPage = 1000

// lightPage is the maximum number of bytes that PullLight reads. The page has at most store.PageBytes of
// them.
const lightPage = 8 * store.PageBytes

// pulled is a page that the client is reading.
type pulled struct {
	reader
	rows     []store.Row
	light    bool // PullLight reads the page, so the client limits its bytes
	lightest int  // maximum size of a row that PullLight reads
	bytes    int
	cut      bool // add ended the page, so the window has more rows
	heavy    bool // the page has a row that PullLight does not read
}

// add appends a row. It ends a page of PullLight before a row that PullLight does not read, and at the limit
// of bytes.
func (p *pulled) add(row sqlexec.Scanner) error {
	if p.cut {
		return nil
	}
	n := len(p.rows)
	p.rows = append(p.rows, store.Row{}) // read in place, because a row is large
	r := &p.rows[n]
	if err := p.read(row, r); err != nil {
		return err
	}
	size := column.MessageBytes(&r.Message)
	p.bytes += size
	p.heavy = p.heavy || r.Large != nil || size > p.lightest
	if p.cut = p.light && (r.Large != nil || p.bytes > store.PageBytes && n > 0); p.cut {
		p.rows = p.rows[:n]
	}
	return nil
}

// bases caches the sequence numbers of ticks, because they never change. Each Pull still checks that the tick
// exists.
type bases struct {
	mu  sync.Mutex
	seq map[Tick]int64
}

func (b *bases) get(t Tick) (int64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seq, ok := b.seq[t]
	return seq, ok || t.ID == 0
}

func (b *bases) put(t Tick, seq int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.seq) >= 64 || b.seq == nil {
		b.seq = map[Tick]int64{}
	}
	b.seq[t] = seq
}

// Bitmap returns a text with a 1 for each bucket in ranges.
func Bitmap(ranges [][2]int) string {
	bits := []byte(strings.Repeat("0", store.Buckets))
	for _, r := range ranges {
		for b := max(r[0], 0); b <= min(r[1], store.Buckets-1); b++ {
			bits[b] = '1'
		}
	}
	return string(bits)
}
