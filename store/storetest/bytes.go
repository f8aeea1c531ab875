package storetest

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

const (
	heavyData = 900 << 10 // the maximum size of a row
	perPage   = store.PageBytes / heavyData
)

// heavy returns n messages of the maximum size.
func heavy(n int) (out []skald.Message) {
	data := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), heavyData-2)...), '"')
	for i := range n {
		m := message("", i)
		m.Key, m.Subject, m.Data = []byte("heavy"), strconv.Itoa(i), data
		out = append(out, m)
	}
	return out
}

// windowBytes checks that a page ends at the limit of bytes, and that the next page continues there.
func (s *suite[TTx]) windowBytes() {
	ms := heavy(2*perPage + 1)
	s.insert(ms...)
	w := store.Window{Tip: s.tick("")}
	var got []store.Row
	for n := 0; ; n++ {
		page, err := s.d.Pull(s.Context(), w, 5000)
		s.ok(err, "pull")
		if len(page.Rows) > perPage || !page.Done && len(page.Rows) < perPage || n > 2 {
			s.Fatalf("page %d has %d rows of %d bytes", n, len(page.Rows), heavyData)
		}
		if got = append(got, page.Rows...); page.Done {
			break
		}
		w.After = got[len(got)-1].Seq
	}
	s.inOrder(len(ms), len(got), func(i int) string { return got[i].Subject })
	if page, err := s.d.Pull(s.Context(), store.Window{Tip: w.Tip, After: got[len(ms)-2].Seq},
		1); err != nil || len(page.Rows) != 1 || !page.Done {
		s.Fatalf("the last page has %d rows, done is %v: %v", len(page.Rows), page.Done, err)
	}
}

// asideBytes checks the same as windowBytes, for deferred rows.
func (s *suite[TTx]) asideBytes() {
	base, _ := s.rowsSince(s.base)
	ms := heavy(perPage + 1)
	s.insert(ms...)
	_, rows := s.rowsSince(base)
	for i, r := range rows {
		a := store.DeferredRow{Row: r}
		if i == 0 {
			a.Why = "refused"
		}
		s.setAside(a)
	}
	first := s.readDue(500)
	if len(first) != perPage {
		s.Fatalf("one page has %d rows of %d bytes", len(first), heavyData)
	}
	for _, a := range first {
		s.free(a.Row)
	}
	got := append(first, s.readDue(500)...)
	s.inOrder(len(ms), len(got), func(i int) string { return got[i].Subject })
}

// asideLarge checks that the replacement of a row that is too large is deferred unchanged.
func (s *suite[TTx]) asideLarge() {
	r := s.insertOne(message("k", 1))
	r.Large, r.Type, r.Data = &store.Large{Bytes: 1 << 30, SHA256: "ab"}, "", nil
	s.setAside(store.DeferredRow{Row: r, Attempts: 1, Why: "too large"})
	got := s.readDue(10)
	if len(got) != 1 || got[0].Large == nil || *got[0].Large != *r.Large || got[0].Type != "" ||
		got[0].Seq != r.Seq || string(got[0].Key) != "k" {
		s.Fatalf("deferred %+v, read %+v", r, got)
	}
}

// alongBytes checks the same as windowBytes, for claimed and prefetched messages.
func (s *suite[TTx]) alongBytes() {
	data := heavy(1)[0].Data
	var ps []store.Parked
	for i := range 2*perPage + 1 {
		key := "" // without a key
		if i >= perPage+1 {
			key = "k"
		}
		p := parked(key, i)
		p.Message.Data = data
		ps = append(ps, p)
	}
	s.apply(keeping(ps...)...)
	for n, want := range []int{perPage, 3, 0} {
		// then the last one without a key, and the first of k with one prefetched
		got, err := s.d.Claim(s.Context(), store.ClaimRequest{Consumer: consumer, Session: "life",
			ClaimSize: store.ClaimSize{Keys: 100, Prefetch: 1, PrefetchAll: 100}, Lease: time.Hour})
		s.ok(err, "claim")
		if len(got.Parked) != want || n == 0 && got.Next <= 0 {
			s.Fatalf("claim %d has %d messages of %d bytes, the next is due in %v", n, len(got.Parked),
				heavyData, got.Next)
		}
	}
	for i := range perPage + 2 {
		p := parked("wide", 50+i)
		p.Message.Data = data
		s.apply(keeping(p)...)
	}
	wide, err := s.d.Claim(s.Context(), store.ClaimRequest{Consumer: consumer, Session: "life",
		ClaimSize: store.ClaimSize{Keys: 100, Prefetch: 100, PrefetchAll: 100}, Lease: time.Hour})
	s.ok(err, "claim")
	if len(wide.Parked) != perPage {
		s.Fatalf("%d messages of one key and %d bytes are read along", len(wide.Parked), heavyData)
	}
	huge := parked("huge", 99)
	huge.Message.Data = bytes.Repeat(data, perPage+2)
	s.apply(keeping(huge)...)
	got, err := s.d.Claim(s.Context(), store.ClaimRequest{Consumer: consumer, Session: "life",
		ClaimSize: store.ClaimSize{Keys: 100, Prefetch: 9, PrefetchAll: 100}, Lease: time.Hour})
	s.ok(err, "claim")
	if len(got.Parked) != 1 {
		s.Fatalf("a message larger than a page is not claimed: %d were", len(got.Parked))
	}
}

// inOrder fails the test unless all numbered rows come in order.
func (s *suite[TTx]) inOrder(want, got int, subject func(int) string) {
	s.Helper()
	var all []string
	for i := range got {
		all = append(all, subject(i))
	}
	for i := range want {
		if i >= got || all[i] != strconv.Itoa(i) {
			s.Fatalf("want %d rows, got %v", want, slices.Clip(all))
		}
	}
}

// windowUneven checks that a heavy row among light ones keeps its place in the order, and that light rows
// end a page by their bytes.
func (s *suite[TTx]) windowUneven() {
	const light, size = 700, 8 << 10
	data := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), size-2)...), '"')
	var ms []skald.Message
	for i := range light {
		m := message("", i)
		if m.Key, m.Data = []byte("uneven"), data; i == 5 || i == light-5 {
			m.Data = heavy(1)[0].Data
		}
		m.Subject = strconv.Itoa(i)
		ms = append(ms, m)
	}
	s.insert(ms...)
	w := store.Window{Tip: s.tick("")}
	var got []store.Row
	for done := false; !done; {
		page, err := s.d.Pull(s.Context(), w, 1000)
		s.ok(err, "pull")
		n := 0
		for _, r := range page.Rows {
			n += len(r.Data)
		}
		if n > store.PageBytes || len(page.Rows) == 0 {
			s.Fatalf("a page has %d rows of %d bytes", len(page.Rows), n)
		}
		got, done = append(got, page.Rows...), page.Done
		w.After = got[len(got)-1].Seq
	}
	s.inOrder(len(ms), len(got), func(i int) string { return got[i].Subject })
	for i, r := range got {
		if r.Large != nil || len(r.Data) != len(ms[i].Data) {
			s.Fatalf("row %d has %d bytes of %d", i, len(r.Data), len(ms[i].Data))
		}
	}
}
