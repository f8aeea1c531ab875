package wal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file records transactions that the slot reported as committed and that the relay has not read yet. A
// look is a read of the outbox with a new snapshot. A snapshot may include a commit later than the WAL has
// it: the server waits for a synchronous standby in between, or its process pauses.

// notedMost limits the number of recorded transactions. The server has fewer sessions, so fewer can be
// committed in the WAL and not yet visible. Above the limit, any transaction may need a look.
const notedMost = 10_000

// noted has the committed transactions that no look has read yet.
type noted struct {
	// all means that any transaction up to the number upto may be such a transaction.
	all  bool
	upto uint32
	xids map[uint32]struct{}
	// seen is the snapshot of the last look, at seenAt. A transaction in this snapshot needs no other look.
	seen   snapshot
	seenAt time.Time
}

// seenFor limits the use of seen, because two numbers compare correctly only within 2³¹ transactions.
const seenFor = time.Minute

// isEarlier reports whether a is the earlier transaction. Numbers wrap around at 2³².
func isEarlier(a, b uint32) bool { return int32(a-b) < 0 }

// begin records that any transaction up to the number upto may have committed.
func (n *noted) begin(upto uint32) { *n = noted{all: true, upto: upto, xids: map[uint32]struct{}{}} }

// add records a committed transaction, unless the last look read it. It returns true if a look is necessary.
func (n *noted) add(xid uint32, now time.Time) (isNew bool) {
	if n.all {
		if isEarlier(n.upto, xid) {
			n.upto = xid
		}
		return true
	}
	if now.Sub(n.seenAt) < seenFor && n.seen.sees(xid) {
		return false
	}
	if n.xids[xid] = struct{}{}; len(n.xids) > notedMost {
		upto := xid
		for x := range n.xids {
			if isEarlier(upto, x) {
				upto = x
			}
		}
		n.begin(upto)
	}
	return true
}

// settle removes the transactions that s, the snapshot of a look, includes.
func (n *noted) settle(s snapshot, now time.Time) {
	n.seen, n.seenAt = s, now
	if n.all && isEarlier(n.upto, s.xmax) {
		n.all = false
		for _, x := range s.running {
			n.xids[x] = struct{}{}
		}
	}
	for x := range n.xids {
		if s.sees(x) {
			delete(n.xids, x)
		}
	}
}

func (n *noted) none() bool { return !n.all && len(n.xids) == 0 }

// snapshot is a pg_snapshot with the lower 32 bits of its numbers, as the WAL has them.
type snapshot struct {
	xmax    uint32
	running []uint32
}

func (s snapshot) sees(xid uint32) bool {
	return isEarlier(xid, s.xmax) && !slices.Contains(s.running, xid)
}

// parseSnapshot reads xmin:xmax:xip,xip,…
func parseSnapshot(text string) (s snapshot, err error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return s, fmt.Errorf("%.40q is not a snapshot", text)
	}
	number := func(t string) uint32 {
		n, e := strconv.ParseUint(t, 10, 64)
		if e != nil {
			err = fmt.Errorf("%.40q is not a snapshot: %w", text, e)
		}
		return uint32(n)
	}
	s.xmax = number(parts[1])
	if parts[2] != "" {
		for t := range strings.SplitSeq(parts[2], ",") {
			s.running = append(s.running, number(t))
		}
	}
	return s, err
}
