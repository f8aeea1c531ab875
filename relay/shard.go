package relay

import (
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// shard is an owned shard. All rows up to its Cursor are acknowledged, without a gap.
type shard struct {
	store.Shard
	group    *group
	blocked  map[string]bool // keys with deferred rows: newer rows of these keys are deferred, too
	pieces   []*piece        // read pages in order, not yet before Cursor
	pending  int             // calls in progress with rows of this shard
	failing  bool            // a row was not acknowledged: nothing more is published until pending is 0
	stopped  bool            // Cursor has reached that row
	suspects map[int64]bool  // rows that were refused together with others: to be published alone
	fails    int             // consecutive restarts
	failed   map[int64]int   // failures of each row to which the broker answered
	leaving  bool            // to be released when no calls are in progress
	gone     bool            // no longer ours: answers are ignored

	saved         store.Cursor
	savedAt       time.Time
	deferred      []store.DeferredRow // to be stored as deferred with the next save
	freed         []int64             // deferred rows that are now published
	origin        origin              // the decoded Incarnation
	originChanged bool                // it must be saved
	// recreated has the new IDs of recreated topics, until no calls are in progress.
	recreated broker.Topics
}

// piece is the part of one page that belongs to one shard.
type piece struct {
	after     store.Cursor // the cursor after the piece is finished
	rows      []*store.Row // published rows, in order
	at        []int        // their indexes in the call
	deferred  []store.DeferredRow
	done      bool
	failedSeq int64 // the first row that was not acknowledged; 0 if there is none
}

func keyOf(m *skald.Message) string { return m.Topic + "\x00" + string(m.Key) }

func newShard(s store.Shard) *shard {
	return &shard{Shard: s, origin: decodeOrigin(s.Incarnation), blocked: map[string]bool{}, saved: s.Cursor,
		suspects: map[int64]bool{}, failed: map[int64]int{}}
}

// advance moves the cursor over the finished pieces at the head of the list. It stops before a row that was
// not acknowledged. The shard restarts at this row when none of its calls are in progress.
func (s *shard) advance() {
	for len(s.pieces) > 0 && s.pieces[0].done && !s.stopped {
		p := s.pieces[0]
		s.pieces[0] = nil
		s.pieces = s.pieces[1:]
		if p.failedSeq == 0 {
			s.Cursor = p.after
			if len(p.rows)+len(p.deferred) > 0 {
				// Only when the shard moves on, because rows that were acknowledged after a failed row are
				// repeated.
				s.fails = 0
			}
			s.endReplay()
			s.deferred = append(s.deferred, p.deferred...)
			continue
		}
		s.stopped = true
		s.stopBefore(p)
	}
}

// stopBefore moves the cursor to the last row before the failed one.
func (s *shard) stopBefore(p *piece) {
	last := s.Cursor.Seq
	if s.Cursor.Base != p.after.Base || s.Cursor.Tip != p.after.Tip {
		last = 0
	}
	for _, r := range p.rows {
		if r.Seq < p.failedSeq {
			last = max(last, r.Seq)
		}
	}
	for _, a := range p.deferred {
		if a.Seq < p.failedSeq {
			last = max(last, a.Seq)
			s.deferred = append(s.deferred, a)
		}
	}
	s.Cursor = store.Cursor{Base: p.after.Base, Tip: p.after.Tip, Seq: last}
}

// bytes returns the memory of the rows that are to be stored as deferred.
func (s *shard) bytes() (n int) {
	for i := range s.deferred {
		n += column.Weight(&s.deferred[i].Message)
	}
	for _, p := range s.pieces {
		for i := range p.deferred {
			n += column.Weight(&p.deferred[i].Message)
		}
	}
	return n
}

// answered frees the rows of a piece, because the piece itself may have to wait for earlier pieces.
func (p *piece) answered() {
	if p.at = nil; p.failedSeq == 0 {
		p.rows = nil
	}
	for _, r := range p.rows {
		r.Message = skald.Message{}
	}
}

// blocks reports whether a row must not be published now because an earlier row of its key is deferred.
func (s *shard) blocks(m *skald.Message) bool { return m.Key != nil && s.blocked[keyOf(m)] }

func (s *shard) block(m *skald.Message) {
	if m.Key != nil {
		s.blocked[keyOf(m)] = true
	}
}

// setBlocked replaces the blocked keys by those in the store and those of rows not yet stored.
func (s *shard) setBlocked(inStore []store.DeferredKey) {
	s.blocked = map[string]bool{}
	for _, h := range inStore {
		if h.Shard == s.ID {
			s.blocked[h.Topic+"\x00"+string(h.Key)] = true
		}
	}
	for i := range s.deferred {
		s.block(&s.deferred[i].Message)
	}
	for _, p := range s.pieces {
		for i := range p.deferred {
			s.block(&p.deferred[i].Message)
		}
	}
}
