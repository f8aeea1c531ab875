package relay

import (
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// A shard is one that we own. Its Cursor is how far the broker has acknowledged, without a gap.
type shard struct {
	store.Shard
	group    *group
	held     map[string]bool // keys with rows deferred: newer rows of theirs go aside too
	pieces   []*piece        // what was read, in order, and is not yet behind Cursor
	pending  int             // calls under way that hold rows of this shard
	trouble  bool            // a row was not taken: nothing more is handed over until pending is 0
	stopped  bool            // and Cursor has come to it
	suspects map[int64]bool  // rows that were refused in company: to be published alone
	fails    int             // in a row
	failed   map[int64]int   // how often rows were not taken that the broker had an answer for
	leaving  bool            // to be given back once nothing is under way
	dead     bool            // not ours any more: answers are ignored

	saved    store.Cursor
	savedAt  time.Time
	deferred []store.DeferredRow // to be deferred with the next save
	freed    []int64             // deferred once, published now
	note     note                // what Incarnation says
	renamed  bool                // it is to be saved
	// ids of topics in note that were made anew, to be taken up once nothing is under way
	told broker.Topics
}

// A piece is the part of one page that belongs to one shard.
type piece struct {
	after    store.Cursor // where the shard is once the piece is finished
	rows     []*store.Row // handed over, in order
	at       []int        // their indexes in the call
	deferred []store.DeferredRow
	done     bool
	bad      int64 // the first row that was not taken; 0: none
}

func keyOf(m *skald.Message) string { return m.Topic + "\x00" + string(m.Key) }

func newShard(l store.Shard) *shard {
	return &shard{Shard: l, note: readNote(l.Incarnation), held: map[string]bool{}, saved: l.Cursor,
		suspects: map[int64]bool{}, failed: map[int64]int{}}
}

// advance moves the cursor over the finished pieces at the head. Behind a row that was not taken it stops:
// then the shard starts again there, once nothing of it is under way.
func (l *shard) advance() {
	for len(l.pieces) > 0 && l.pieces[0].done && !l.stopped {
		p := l.pieces[0]
		l.pieces[0] = nil
		l.pieces = l.pieces[1:]
		if p.bad == 0 {
			l.Cursor = p.after
			if len(p.rows)+len(p.deferred) > 0 {
				// only where the shard moves on: what is taken behind a row that is not is repeated
				l.fails = 0
			}
			l.renewed()
			l.deferred = append(l.deferred, p.deferred...)
			continue
		}
		l.stopped = true
		l.stopBefore(p)
	}
}

// stopBefore moves the cursor to the last row before the bad one.
func (l *shard) stopBefore(p *piece) {
	last := l.Cursor.Seq
	if l.Cursor.Base != p.after.Base || l.Cursor.Tip != p.after.Tip {
		last = 0
	}
	for _, r := range p.rows {
		if r.Seq < p.bad {
			last = max(last, r.Seq)
		}
	}
	for _, a := range p.deferred {
		if a.Seq < p.bad {
			last = max(last, a.Seq)
			l.deferred = append(l.deferred, a)
		}
	}
	l.Cursor = store.Cursor{Base: p.after.Base, Tip: p.after.Tip, Seq: last}
}

// bytes is what the rows take that are to be deferred.
func (l *shard) bytes() (n int) {
	for i := range l.deferred {
		n += column.Weight(&l.deferred[i].Message)
	}
	for _, p := range l.pieces {
		for i := range p.deferred {
			n += column.Weight(&p.deferred[i].Message)
		}
	}
	return n
}

// answered keeps of the rows of a piece no more than is still asked for: the piece may have to wait for
// others before it.
func (p *piece) answered() {
	if p.at = nil; p.bad == 0 {
		p.rows = nil
	}
	for _, r := range p.rows {
		r.Message = skald.Message{}
	}
}

// holds tells whether a row must not be published now because earlier ones of its key were not.
func (l *shard) holds(m *skald.Message) bool { return m.Key != nil && l.held[keyOf(m)] }

func (l *shard) hold(m *skald.Message) {
	if m.Key != nil {
		l.held[keyOf(m)] = true
	}
}

// heldIs replaces what is held by what the store says and what is still on its way there.
func (l *shard) heldIs(inStore []store.Held) {
	l.held = map[string]bool{}
	for _, h := range inStore {
		if h.Shard == l.ID {
			l.held[h.Topic+"\x00"+string(h.Key)] = true
		}
	}
	for i := range l.deferred {
		l.hold(&l.deferred[i].Message)
	}
	for _, p := range l.pieces {
		for i := range p.deferred {
			l.hold(&p.deferred[i].Message)
		}
	}
}
