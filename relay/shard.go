package relay

import (
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// shard is a shard that the relay owns. All rows up to its Cursor are acknowledged or deferred, without a
// gap.
type shard struct {
	store.Shard
	group    *group
	blocked  map[string]bool // keys with deferred rows; their newer rows are deferred too
	pieces   []*piece        // pieces of read pages, in order, after Cursor
	pending  int             // calls in progress with rows of this shard
	failing  bool            // a row failed, so no more rows are published until pending is 0
	stopped  bool            // Cursor has reached the failed row
	suspects map[int64]bool  // rows to publish alone, because they were refused with others
	fails    int             // restarts in a row
	failed   map[int64]int   // by row: the number of failures with an answer of the broker
	leaving  bool            // the relay releases it when it has no calls in progress
	gone     bool            // the relay does not own it any more, and ignores answers

	saved         store.Cursor
	savedAt       time.Time
	deferred      []store.DeferredRow // rows that the next save stores as deferred
	freed         []int64             // deferred rows that were published
	origin        origin              // the decoded Incarnation
	originChanged bool                // origin must be saved
	// recreated has the new IDs of recreated topics, until the shard restarts
	recreated broker.Topics
}

// piece is the part of one page that belongs to one shard.
type piece struct {
	after     store.Cursor // the cursor after the piece is finished
	rows      []*store.Row // published rows, in order
	at        []int        // the indexes of rows in the call
	deferred  []store.DeferredRow
	done      bool
	failedSeq int64 // the first failed row; 0 if there is none
}

func keyOf(m *skald.Message) string { return m.Topic + "\x00" + string(m.Key) }

func newShard(s store.Shard) *shard {
	return &shard{Shard: s, origin: decodeOrigin(s.Incarnation), blocked: map[string]bool{}, saved: s.Cursor,
		suspects: map[int64]bool{}, failed: map[int64]int{}}
}

// advance moves the cursor over the finished pieces. It stops before a failed row. The shard restarts at this
// row when it has no calls in progress.
func (s *shard) advance() {
	for len(s.pieces) > 0 && s.pieces[0].done && !s.stopped {
		p := s.pieces[0]
		s.pieces[0] = nil
		s.pieces = s.pieces[1:]
		if p.failedSeq == 0 {
			s.Cursor = p.after
			if len(p.rows)+len(p.deferred) > 0 {
				// This is set only when the cursor moves, because rows that were acknowledged after a failed
				// row are repeated.
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

// stopBefore moves the cursor to the last row before the failed row.
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

// bytes returns the memory of the rows that will be stored as deferred.
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

// answered frees the memory of the rows of a piece, because the piece may have to wait for earlier pieces.
func (p *piece) answered() {
	if p.at = nil; p.failedSeq == 0 {
		p.rows = nil
	}
	for _, r := range p.rows {
		r.Message = skald.Message{}
	}
}

// blocks returns true if an earlier row of the same key is deferred.
func (s *shard) blocks(m *skald.Message) bool { return m.Key != nil && s.blocked[keyOf(m)] }

func (s *shard) block(m *skald.Message) {
	if m.Key != nil {
		s.blocked[keyOf(m)] = true
	}
}

// setBlocked replaces the blocked keys by those in the store, and those of deferred rows that are not stored
// yet.
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
