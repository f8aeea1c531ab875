package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

func payloadTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Listed":  (*suite[TTx]).payloadsListed,
		"Bounded": (*suite[TTx]).payloadsBounded,
	}
}

func (s *suite[TTx]) payloads() []store.Payload {
	s.Helper()
	l, err := s.d.List(s.Context(), store.List{Payloads: true})
	s.ok(err, "list payloads")
	return l.Payloads
}

// payloadsListed checks that payloads are listed byte for byte, the newest row first. A deferred row is
// listed once, even if its outbox row was deleted.
func (s *suite[TTx]) payloadsListed() {
	if got := s.payloads(); len(got) != 0 {
		s.Errorf("an empty outbox has %+v", got)
	}
	carrying := func(data []byte, contentType string, hs ...skald.Header) skald.Message {
		m := message("k", 0)
		m.Data, m.ContentType, m.Headers = data, contentType, hs
		return m
	}
	gone := carrying([]byte("gone"), "text/plain", skald.Header{Name: "a", Value: []byte{0, 1}})
	s.setAside(store.DeferredRow{Row: s.insertOne(gone), Attempts: 1, Why: "no"})
	s.db.Age(s, 9*day)
	s.cover(store.Cursor{Base: s.tick("")})
	s.emptied(0)
	s.wantCounts(0, 0, 1)
	ms := []skald.Message{
		carrying([]byte(`{"a":"ü"}`), "application/json"),
		carrying([]byte{0, 0, 0, 0, 7, 0xff}, "application/octet-stream",
			skald.Header{Name: "b", Value: []byte("1")}, skald.Header{Name: "b", Value: []byte{}}),
		carrying(nil, "application/json"),
		carrying([]byte{}, "application/octet-stream"),
		carrying(bytes.Repeat([]byte("x"), store.PayloadBytes+1), "text/plain"),
	}
	s.insert(ms...)
	s.base, _ = s.rowsSince(s.base)
	s.setAside(store.DeferredRow{Row: s.insertOne(carrying([]byte("waits"), "text/plain")),
		Attempts: 1, Why: "no"})
	var got []string
	for i, p := range s.payloads() {
		m := p.Message
		if i == 1 && m.ID != ms[4].ID {
			s.Errorf("%s has the id %s", m.Type, m.ID)
		}
		got = append(got, fmt.Sprintf("%s %s %s %v %q %q", m.Topic, m.Type, m.ContentType, p.Read,
			m.Data, m.Headers))
	}
	want := []string{
		`orders order.placed text/plain true "waits" []`,
		`orders order.placed text/plain false "" []`,
		`orders order.placed application/octet-stream true "" []`,
		`orders order.placed application/octet-stream true "\x00\x00\x00\x00\a\xff" [{"b" "1"} {"b" ""}]`,
		`orders order.placed application/json true "{\"a\":\"ü\"}" []`,
		`orders order.placed text/plain true "gone" [{"a" "\x00\x01"}]`,
	}
	if !slices.Equal(got, want) {
		s.Errorf("listed are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// payloadsBounded checks the limits of rows and bytes for a large outbox.
func (s *suite[TTx]) payloadsBounded() {
	const large = 300
	ms := make([]skald.Message, store.PayloadRows+10)
	for i := range ms {
		ms[i] = message("", i)
	}
	for i := range large {
		m := &ms[len(ms)-1-i]
		m.Data, m.ContentType = bytes.Repeat([]byte{byte(i)}, store.PayloadBytes), "application/octet-stream"
	}
	s.insert(ms...)
	got := s.payloads()
	read := 0
	for _, p := range got {
		if p.Read {
			read += len(p.Message.Data)
		}
	}
	if len(got) != store.PayloadRows || read > store.PayloadsAll || read < store.PayloadsAll/2 ||
		!got[0].Read || got[large-1].Read {
		s.Errorf("%d rows and %d bytes were read, the first: %v, the last large one: %v", len(got), read,
			got[0].Read, got[large-1].Read)
	}
}
