// This file maps times to the leaf partitions of the outbox. The outbox is a ring of leaves, one for each
// day. When all leaves are used, the next day reuses the first leaf.

package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// leafRing maps times from From on to leaves. Resize adds a later ring; existing rows stay in their leaves.
type leafRing struct {
	From  int64 `json:"from"`  // the start of a transaction, in milliseconds since 1970; 0 means always
	First int   `json:"first"` // number of the first leaf
	Slots int   `json:"slots"` // number of leaves
}

// Rings has all rings in the order of From. A ring ends where the next one begins; the last ring has no end.
type Rings []leafRing

// Default returns the rings of a database that was never resized: ten slots of one day.
func Default() Rings { return Rings{{Slots: 10}} }

// Leaf returns the number of the leaf for the time t. One leaf has the rows of a period of the given width.
func (rs Rings) Leaf(t time.Time, width time.Duration) int {
	r := rs[0]
	for _, later := range rs[1:] {
		if t.UnixMilli() >= later.From {
			r = later
		}
	}
	return r.leaf(t.Unix() / int64(width/time.Second))
}

func (r leafRing) leaf(window int64) int { return r.First + int(window%int64(r.Slots)) }

// Leaves lists all leaves of the rings, in order.
func (rs Rings) Leaves() []int {
	set := map[int]bool{}
	for _, r := range rs {
		for i := range r.Slots {
			set[r.First+i] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// Live returns the leaves that may have rows with a time from earliest to latest. A row may be older than
// the begin of its ring, at most by the margin.
func (rs Rings) Live(earliest, latest time.Time, width, margin time.Duration) map[int]bool {
	w, out := int64(width/time.Second), map[int]bool{}
	for i, r := range rs {
		from, to := earliest, latest
		if begin := time.UnixMilli(r.From).Add(-margin); r.From > 0 && begin.After(from) {
			from = begin
		}
		if i+1 < len(rs) && time.UnixMilli(rs[i+1].From).Before(to) {
			to = time.UnixMilli(rs[i+1].From)
		}
		for n := from.Unix() / w; n <= to.Unix()/w && !to.Before(from); n++ {
			out[r.leaf(n)] = true
		}
	}
	return out
}

// Slots returns the number of slots of the newest ring.
func (rs Rings) Slots() int { return rs[len(rs)-1].Slots }

// Parse parses the rings in skald_setting. If text is empty, Parse returns the fallback.
func Parse(text string, fallback Rings) (Rings, error) {
	if text == "" {
		return fallback, nil
	}
	var rs Rings
	if err := json.Unmarshal([]byte(text), &rs); err != nil {
		return nil, fmt.Errorf("a ring in skald_setting: %w", err)
	}
	for _, r := range rs {
		if r.Slots < 1 || r.First < 0 {
			return nil, fmt.Errorf("a ring in skald_setting has %d slots from leaf %d on", r.Slots, r.First)
		}
	}
	if len(rs) == 0 || !slices.IsSortedFunc(rs, func(a, b leafRing) int {
		return cmp.Compare(a.From,
			b.From)
	}) {
		return nil, fmt.Errorf("rings in skald_setting are not in order: %.100q", text)
	}
	return rs, nil
}
