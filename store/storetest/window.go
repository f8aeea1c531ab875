package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

func windowTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"NothingNew":          (*suite[TTx]).windowNothingNew,
		"OneAfterTheOther":    (*suite[TTx]).windowOneAfterTheOther,
		"Pages":               (*suite[TTx]).windowPages,
		"Bytes":               (*suite[TTx]).windowBytes,
		"Uneven":              (*suite[TTx]).windowUneven,
		"Buckets":             (*suite[TTx]).windowBuckets,
		"LateWithLowNumber":   (*suite[TTx]).windowLateWithLowNumber,
		"OpenDelaysNothing":   (*suite[TTx]).windowOpenDelaysNothing,
		"RolledBack":          (*suite[TTx]).windowRolledBack,
		"UnknownTick":         (*suite[TTx]).windowUnknownTick,
		"OrderUnderWriters":   (*suite[TTx]).windowOrderUnderWriters,
		"MarksAloneAreNoRows": (*suite[TTx]).windowMarksAloneAreNoRows,
	}
}

// pullAll reads all rows of a window, in pages.
func (s *suite[TTx]) pullAll(w store.Window, limit int) (rows []store.Row) {
	s.Helper()
	for {
		page, err := s.d.Pull(s.Context(), w, limit)
		s.ok(err, "pull")
		if len(page.Rows) > limit || len(page.Rows) == 0 && !page.Done {
			s.Fatalf("a page of at most %d has %d rows, done is %v", limit, len(page.Rows), page.Done)
		}
		for _, r := range page.Rows {
			if r.Seq <= w.After {
				s.Fatalf("row %d comes after %d", r.Seq, w.After)
			}
			w.After = r.Seq
		}
		rows = append(rows, page.Rows...)
		if page.Done {
			return rows
		}
	}
}

func (s *suite[TTx]) tick(base string) string {
	s.Helper()
	tip, err := store.Snapshot(s.Context(), s.d, base)
	s.ok(err, "tick")
	return tip
}

// rowsSince returns the rows from base to now, and the new tick.
func (s *suite[TTx]) rowsSince(base string) (tip string, rows []store.Row) {
	s.Helper()
	if tip = s.tick(base); tip == base {
		return tip, nil
	}
	return tip, s.pullAll(store.Window{Base: base, Tip: tip}, 1000)
}

// allRows returns the whole outbox.
func (s *suite[TTx]) allRows() []store.Row {
	s.Helper()
	_, all := s.rowsSince("")
	return all
}

func ids(rs []store.Row) (out []string) {
	for _, r := range rs {
		out = append(out, r.ID)
	}
	return out
}

func (s *suite[TTx]) wantIDs(got []store.Row, want ...string) {
	s.Helper()
	if got := ids(got); !slices.Equal(got, want) {
		s.Fatalf("the rows are %v, want %v", got, want)
	}
}

func (s *suite[TTx]) windowNothingNew() {
	if tip := s.tick(""); tip != "" {
		s.Fatalf("an empty outbox gives the tick %q", tip)
	}
	s.insert(message("a", 1))
	tip := s.tick("")
	if tip == "" {
		s.Fatal("a row gives no tick")
	}
	for range 3 {
		if again := s.tick(tip); again != tip {
			s.Fatalf("without a new row the tick moves from %q to %q", tip, again)
		}
	}
	if got := s.pullAll(store.Window{Base: tip, Tip: tip}, 10); len(got) != 0 {
		s.Fatalf("an empty window has %d rows", len(got))
	}
}

func (s *suite[TTx]) windowMarksAloneAreNoRows() {
	s.insert(message("a", 1))
	tip := s.tick("")
	m := mark()
	s.commit(s.begin(s.d, intake(m, mark())))
	s.apply(lockAt("a", 0))
	s.lease(s.d, "one", "1")
	tx := s.db.Begin(s)
	s.put(tx, "k", "v")
	s.ok(s.db.Commit(tx), "commit")
	if again, got := s.rowsSince(tip); len(got) != 0 {
		s.Fatalf("from %q to %q are %d rows", tip, again, len(got))
	}
}

// windowOneAfterTheOther checks that windows do not overlap or leave gaps, and that each window has the same
// rows at every read.
func (s *suite[TTx]) windowOneAfterTheOther() {
	type read struct {
		w   store.Window
		ids []string
	}
	var reads []read
	base := ""
	for i := range 5 {
		var ms []skald.Message
		for n := range i + 1 {
			ms = append(ms, message("a", n))
		}
		s.insert(ms...)
		tip, got := s.rowsSince(base)
		if len(got) != len(ms) {
			s.Fatalf("window %d has %d rows, want %d", i, len(got), len(ms))
		}
		reads = append(reads, read{store.Window{Base: base, Tip: tip}, ids(got)})
		base = tip
	}
	s.d = s.db.Driver(s)
	var all []string
	for _, r := range reads {
		s.wantIDs(s.pullAll(r.w, 2), r.ids...)
		all = append(all, r.ids...)
	}
	s.wantIDs(s.pullAll(store.Window{Tip: base}, 3), all...)
	s.wantIDs(s.pullAll(store.Window{Base: reads[1].w.Tip, Tip: reads[3].w.Tip}, 3),
		append(reads[2].ids, reads[3].ids...)...)
}

func (s *suite[TTx]) windowPages() {
	var ms []skald.Message
	for i := range 10 {
		ms = append(ms, message("a", i))
	}
	s.insert(ms...)
	tip, all := s.rowsSince("")
	for _, limit := range []int{1, 2, 3, 9, 10, 11} {
		s.wantIDs(s.pullAll(store.Window{Tip: tip}, limit), ids(all)...)
	}
	for i, r := range all {
		page, err := s.d.Pull(s.Context(), store.Window{Tip: tip, After: r.Seq}, 4)
		s.ok(err, "pull")
		s.wantIDs(page.Rows, ids(all[i+1:min(i+5, len(all))])...)
		if left := len(all) - i - 1; page.Done && left > 4 || !page.Done && left < 4 {
			s.Errorf("with %d rows left a page of 4 has Done %v", left, page.Done)
		}
	}
}

// windowBuckets checks that each row is only in the shard of its key's bucket, or of its ID's bucket if it
// has no key.
func (s *suite[TTx]) windowBuckets() {
	var ms []skald.Message
	for i := range 200 {
		m := message(fmt.Sprint("key-", i%50), i)
		if i%5 == 0 {
			m.Key = nil
		}
		ms = append(ms, m)
	}
	s.insert(ms...)
	tip, all := s.rowsSince("")
	for i := range all {
		s.wantSame(all[i], ms[i])
	}
	part := func(ranges ...[2]int) []store.Row {
		got := s.pullAll(store.Window{Tip: tip, Buckets: ranges}, 7)
		want := slices.DeleteFunc(slices.Clone(all), func(r store.Row) bool {
			return !slices.ContainsFunc(ranges,
				func(b [2]int) bool { return b[0] <= r.Bucket && r.Bucket <= b[1] })
		})
		s.wantIDs(got, ids(want)...)
		return got
	}
	total := 0
	for _, l := range s.lease(s.d, "one", "1") {
		total += len(part([2]int{l.First, l.Last}))
	}
	if total != len(all) {
		s.Errorf("the shards have %d rows, the outbox %d", total, len(all))
	}
	b := all[0].Bucket
	part([2]int{b, b})
	part([2]int{0, 100}, [2]int{512, 600}, [2]int{1023, 1023})
	part([2]int{0, store.Buckets - 1})
}

// windowLateWithLowNumber checks a transaction that draws the first numbers and commits last. Its rows are in
// the window of its commit, and earlier windows stay unchanged.
func (s *suite[TTx]) windowLateWithLowNumber() {
	if !s.can.Rivals {
		s.Skip("one writer at a time commits in the order of its rows")
	}
	late1, mid, late2, last := message("a", 1), message("b", 2), message("a", 3), message("c", 4)
	tx := s.db.Begin(s)
	s.write(tx, late1)
	s.insert(mid)
	first, got := s.rowsSince("")
	s.wantIDs(got, mid.ID)
	s.write(tx, late2)
	s.ok(s.db.Commit(tx), "commit")
	s.wantIDs(s.pullAll(store.Window{Tip: first}, 10), mid.ID)
	s.insert(last)
	second, got := s.rowsSince(first)
	s.wantIDs(got, late1.ID, late2.ID, last.ID)
	s.wantIDs(s.pullAll(store.Window{Tip: second}, 1), late1.ID, mid.ID, late2.ID, last.ID)
	s.wantIDs(s.pullAll(store.Window{Tip: first}, 1), mid.ID)
	if tip := s.tick(second); tip != second {
		s.Error("there is more")
	}
}

// windowOpenDelaysNothing checks that open transactions delay only their own rows, which come later.
func (s *suite[TTx]) windowOpenDelaysNothing() {
	if !s.can.Rivals {
		s.Skip("one writer at a time")
	}
	held := message("held", 1)
	long := s.db.Begin(s)
	s.write(long, held)
	idle := s.begin(s.db.Driver(s), store.Intake{Marks: []store.Mark{mark()}, Handle: patience * 10})
	base := ""
	for i := range 20 {
		m := message("a", i)
		s.insert(m)
		tip, got := s.rowsSince(base)
		s.wantIDs(got, m.ID)
		base = tip
	}
	s.commit(idle)
	s.ok(s.db.Commit(long), "commit")
	_, got := s.rowsSince(base)
	s.wantIDs(got, held.ID)
}

func (s *suite[TTx]) windowRolledBack() {
	a, b := message("a", 1), message("a", 2)
	s.insert(a)
	for range 3 {
		tx := s.db.Begin(s)
		s.write(tx, message("a", 9), message("b", 9))
		s.ok(s.db.Rollback(tx), "roll back")
	}
	base, _ := s.rowsSince("")
	u := s.begin(s.d, store.Intake{})
	s.write(u.Tx(), message("a", 9))
	s.rollback(u)
	s.wantError(s.begin(s.d, store.Intake{}).Commit(s.Context(), rows(message("a", 9)), lockAt("a", 9)),
		store.ErrLost, "commit")
	if tip := s.tick(base); tip != base {
		s.Error("rows that were rolled back draw a tick")
	}
	s.insert(b)
	s.wantIDs(s.allRows(), a.ID, b.ID)
}

func (s *suite[TTx]) windowUnknownTick() {
	s.insert(message("a", 1))
	tip := s.tick("")
	for _, unknown := range []string{"no such tick", "9223372036854775806", tip + "9"} {
		_, err := store.Snapshot(s.Context(), s.d, unknown)
		s.wantError(err, store.ErrMoved, fmt.Sprintf("tick of %q", unknown))
		if page, err := s.d.Pull(s.Context(), store.Window{Base: unknown, Tip: tip}, 10); err == nil {
			s.Errorf("pull from %q gives %d rows", unknown, len(page.Rows))
		}
	}
}

// windowOrderUnderWriters runs slow writers that lock their entities, and a relay. The relay reads each row
// once, and rows of a key in the order of versions.
func (s *suite[TTx]) windowOrderUnderWriters() {
	const writers, each, keys = 6, 25, 3
	var wg sync.WaitGroup
	for range writers {
		d := s.db.Driver(s)
		wg.Go(func() {
			for range each {
				key := fmt.Sprint("key-", rand.IntN(keys))
				u, err := d.Begin(s.Context(), locking(key))
				if err != nil {
					s.Errorf("begin: %v", err)
					return
				}
				m := message(key, int(u.Found().Locks[0]))
				if err := d.Write(s.Context(), u.Tx(), rows(m)); err != nil {
					s.Errorf("write: %v", err)
				}
				if err := u.Commit(s.Context()); err != nil {
					s.Errorf("commit: %v", err)
				}
			}
		})
	}
	writing := meanwhile(wg.Wait)
	last, base, total := map[string]int{}, "", 0
	read := func() {
		tip, got := s.rowsSince(base)
		base = tip
		for _, r := range got {
			n := 0
			if _, err := fmt.Sscanf(string(r.Data), `{"n":%d}`, &n); err != nil {
				s.Fatalf("read %s: %v", r.Data, err)
			}
			if n != last[string(r.Key)]+1 {
				s.Fatalf("%s: %d comes after %d", r.Key, n, last[string(r.Key)])
			}
			last[string(r.Key)] = n
			total++
		}
	}
	for open := true; open; {
		select {
		case <-writing:
			open = false
		default:
		}
		read()
	}
	if total != writers*each {
		s.Errorf("%d rows of %d arrived", total, writers*each)
	}
}
