package relay

import (
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// A lane is one that we own. Its Cursor is how far the broker has acknowledged, without a gap.
type lane struct {
	store.Lane
	group    *group
	held     map[string]bool // keys with rows set aside: newer rows of theirs go aside too
	pieces   []*piece        // what was read, in order, and is not yet behind Cursor
	pending  int             // calls under way that hold rows of this lane
	trouble  bool            // a row was not taken: nothing more is handed over until pending is 0
	stopped  bool            // and Cursor has come to it
	suspects map[int64]bool  // rows that were refused in company: to be published alone
	fails    int             // in a row
	leaving  bool            // to be given back once nothing is under way
	dead     bool            // not ours any more: answers are ignored

	saved   store.Cursor
	savedAt time.Time
	aside   []store.Aside // to be set aside with the next save
	freed   []int64       // set aside once, published now
	note    note          // what Incarnation says
	renamed bool          // it is to be saved
	told    broker.Topics // ids of topics in note that were made anew, to be taken up once nothing is under way
}

// A piece is the part of one page that belongs to one lane.
type piece struct {
	after store.Cursor // where the lane is once the piece is finished
	rows  []*store.Row // handed over, in order
	at    []int        // their indexes in the call
	aside []store.Aside
	done  bool
	bad   int64 // the first row that was not taken; 0: none
}

func keyOf(m *skald.Message) string { return m.Topic + "\x00" + string(m.Key) }

func newLane(l store.Lane) *lane {
	return &lane{Lane: l, note: readNote(l.Incarnation), held: map[string]bool{}, saved: l.Cursor, suspects: map[int64]bool{}}
}

// advance moves the cursor over the finished pieces at the head. Behind a row that was not taken it stops: then
// the lane starts again there, once nothing of it is under way.
func (l *lane) advance() {
	for len(l.pieces) > 0 && l.pieces[0].done && !l.stopped {
		p := l.pieces[0]
		l.pieces[0] = nil
		l.pieces = l.pieces[1:]
		if p.bad == 0 {
			l.Cursor = p.after
			l.renewed()
			l.aside = append(l.aside, p.aside...)
			continue
		}
		l.stopped = true
		l.stopBefore(p)
	}
}

// stopBefore moves the cursor to the last row before the bad one.
func (l *lane) stopBefore(p *piece) {
	last := l.Cursor.Seq
	if l.Cursor.Base != p.after.Base || l.Cursor.Tip != p.after.Tip {
		last = 0
	}
	for _, r := range p.rows {
		if r.Seq < p.bad {
			last = max(last, r.Seq)
		}
	}
	for _, a := range p.aside {
		if a.Seq < p.bad {
			last = max(last, a.Seq)
			l.aside = append(l.aside, a)
		}
	}
	l.Cursor = store.Cursor{Base: p.after.Base, Tip: p.after.Tip, Seq: last}
}

// holds tells whether a row must not be published now because earlier ones of its key were not.
func (l *lane) holds(m *skald.Message) bool { return m.Key != nil && l.held[keyOf(m)] }

func (l *lane) hold(m *skald.Message) {
	if m.Key != nil {
		l.held[keyOf(m)] = true
	}
}

// heldIs replaces what is held by what the store says and what is still on its way there.
func (l *lane) heldIs(inStore []store.Held) {
	l.held = map[string]bool{}
	for _, h := range inStore {
		if h.Lane == l.ID {
			l.held[h.Topic+"\x00"+string(h.Key)] = true
		}
	}
	for i := range l.aside {
		l.hold(&l.aside[i].Message)
	}
	for _, p := range l.pieces {
		for i := range p.aside {
			l.hold(&p.aside[i].Message)
		}
	}
}
