package storetest

import (
	"bytes"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

func writeTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Caller":      (*suite[TTx]).writeCaller,
		"Order":       (*suite[TTx]).writeOrder,
		"RowsOnly":    (*suite[TTx]).writeRowsOnly,
		"Many":        (*suite[TTx]).writeMany,
		"SameID":      (*suite[TTx]).writeSameID,
		"Largest":     (*suite[TTx]).writeLargest,
		"AboveLimits": (*suite[TTx]).writeAboveLimits,
		"Wakes":       (*suite[TTx]).writeWakes,
		"KeepsNone":   (*suite[TTx]).writeKeepsNone,
		"Programs":    (*suite[TTx]).writePrograms,
	}
}

func (s *suite[TTx]) writeCaller() {
	tx := s.db.Begin(s)
	s.put(tx, "k", "undone")
	s.write(tx, message("a", 1))
	s.ok(s.db.Rollback(tx), "roll back")
	s.wantCounts(0, 0, 0)
	s.wantUser("k", "")

	said := message("a", 2)
	tx = s.db.Begin(s)
	s.put(tx, "k", "v")
	s.write(tx, said)
	s.wantCounts(0, 0, 0)
	s.ok(s.db.Commit(tx), "commit")
	s.wantCounts(1, 0, 0)
	s.wantUser("k", "v")
	s.wantIDs(s.allRows(), said.ID)
}

// writeOrder checks that rows keep the order of calls, of effects in a call, and of rows in an effect.
func (s *suite[TTx]) writeOrder() {
	var ms []skald.Message
	var ids []string
	for i := range 12 {
		ms = append(ms, message([]string{"a", "b", ""}[i%3], i))
		ids = append(ids, ms[i].ID)
	}
	tx := s.db.Begin(s)
	s.write(tx, ms[0])
	s.ok(s.d.Write(s.Context(), tx), "write of nothing")
	s.ok(s.d.Write(s.Context(), tx, rows(ms[1], ms[2]), rows(), rows(ms[3])), "write")
	s.ok(s.db.Commit(tx), "commit")
	u := s.begin(s.d, store.Intake{})
	s.write(u.Tx(), ms[4], ms[5])
	s.write(u.Tx(), ms[6])
	s.commit(u, rows(ms[7]), rows(ms[8], ms[9]))
	s.apply(rows(ms[10]), rows(ms[11]))
	s.wantIDs(s.allRows(), ids...)
}

func (s *suite[TTx]) writeRowsOnly() {
	m, l := mark(), s.lease(s.d, "one", "1")[0]
	for name, e := range map[string]store.Effect{
		"mark":  {Mark: &m},
		"lock":  lockAt("a", 0),
		"shard": {Shard: &store.Progress{Shard: l.ID, Epoch: l.Epoch, Token: l.Token, Incarnation: new("b")}},
	} {
		tx := s.db.Begin(s)
		if err := s.d.Write(s.Context(), tx, e); err == nil {
			s.Errorf("an effect with a %s is written into the caller's transaction", name)
		}
		s.ok(s.db.Rollback(tx), "roll back")
		u := s.begin(s.d, store.Intake{})
		if err := s.d.Write(s.Context(), u.Tx(), e); err == nil {
			s.Errorf("an effect with a %s is written into a lent transaction", name)
		}
		s.rollback(u)
	}
	s.wantCounts(0, 0, 0)
}

func (s *suite[TTx]) writeMany() {
	var ms []skald.Message
	var ids []string
	for i := range 1500 {
		ms = append(ms, message("a", i))
		ids = append(ids, ms[i].ID)
	}
	s.insert(ms...)
	s.wantCounts(1500, 0, 0)
	s.wantIDs(s.allRows(), ids...)
}

// writeSameID checks that an ID may be in the outbox twice, because a reply is sent again with its ID.
func (s *suite[TTx]) writeSameID() {
	m := message("a", 1)
	s.insert(m, m)
	s.insert(m)
	s.wantIDs(s.allRows(), m.ID, m.ID, m.ID)
}

// changed returns a message that f made too large or invalid.
func changed(f func(*skald.Message)) skald.Message {
	m := message("a", 1)
	f(&m)
	return m
}

func (s *suite[TTx]) writeLargest() {
	data := bytes.Repeat([]byte{0xff}, 900<<10)
	text := []byte(`"` + strings.Repeat("x", 900<<10-2) + `"`)
	var headers []skald.Header
	for range 128 {
		headers = append(headers, skald.Header{Name: "x-header", Value: bytes.Repeat([]byte{0xfe}, 120)})
	}
	ms := []skald.Message{
		changed(func(m *skald.Message) { m.Topic = strings.Repeat("t", 249) }),
		changed(func(m *skald.Message) { m.Topic = "Az09._-" }),
		changed(func(m *skald.Message) { m.Type = strings.Repeat("t", 255) }),
		changed(func(m *skald.Message) { m.Key = bytes.Repeat([]byte{0xff}, 1024) }),
		changed(func(m *skald.Message) { m.Key = bytes.Repeat([]byte("k"), 1024) }),
		changed(func(m *skald.Message) { m.Data, m.ContentType = data, "application/octet-stream" }),
		changed(func(m *skald.Message) { m.Data = text }),
		changed(func(m *skald.Message) { m.Headers = headers }),
		changed(func(m *skald.Message) { m.Headers = []skald.Header{{Name: strings.Repeat("n", 128)}} }),
		changed(func(m *skald.Message) { m.Subject = strings.Repeat("s", 1024) }),
	}
	s.insert(ms...)
	got := s.allRows()
	if len(got) != len(ms) {
		s.Fatalf("%d rows of %d arrived", len(got), len(ms))
	}
	for i := range ms {
		s.wantSame(got[i], ms[i])
	}
}

func (s *suite[TTx]) writeAboveLimits() {
	if !s.can.Limits {
		s.Skip("the database has no limits of its own")
	}
	for name, m := range map[string]skald.Message{
		"no topic":          changed(func(m *skald.Message) { m.Topic = "" }),
		"long topic":        changed(func(m *skald.Message) { m.Topic = strings.Repeat("t", 250) }),
		"space in topic":    changed(func(m *skald.Message) { m.Topic = "a b" }),
		"newline in topic":  changed(func(m *skald.Message) { m.Topic = "a\n" }),
		"letter in topic":   changed(func(m *skald.Message) { m.Topic = "bestellgröße" }),
		"no type":           changed(func(m *skald.Message) { m.Type = "" }),
		"long type":         changed(func(m *skald.Message) { m.Type = strings.Repeat("t", 256) }),
		"long key":          changed(func(m *skald.Message) { m.Key = bytes.Repeat([]byte("k"), 1025) }),
		"long binary key":   changed(func(m *skald.Message) { m.Key = bytes.Repeat([]byte{0xff}, 1025) }),
		"key of wide runes": changed(func(m *skald.Message) { m.Key = bytes.Repeat([]byte("ä"), 513) }),
		"long text": changed(
			func(m *skald.Message) { m.Data = bytes.Repeat([]byte("1"), 900<<10+1) }),
		"text of wide runes": changed(func(m *skald.Message) {
			m.Data = append(append([]byte(`"`), bytes.Repeat([]byte("ä"), 450<<10)...), '"')
		}),
		"long bytes": changed(func(m *skald.Message) {
			m.Data, m.ContentType = bytes.Repeat([]byte{0xff}, 900<<10+1), "application/octet-stream"
		}),
		"large headers": changed(func(m *skald.Message) {
			m.Headers = []skald.Header{{Name: "a", Value: bytes.Repeat([]byte{1}, 16<<10)},
				{Name: "b", Value: bytes.Repeat([]byte{1}, 16<<10)}}
		}),
	} {
		tx := s.db.Begin(s)
		err := s.d.Write(s.Context(), tx, rows(m))
		if err == nil {
			err = s.db.Commit(tx)
		} else {
			_ = s.db.Rollback(tx)
		}
		if err == nil {
			s.Errorf("%s: the database takes it", name)
			continue
		}
		s.wantCounts(0, 0, 0)
		if stored, err := s.d.Apply(s.Context(), rows(m)); err == nil {
			s.Errorf("%s: Apply answers %v without an error", name, stored)
		}
		u := s.begin(s.d, store.Intake{})
		if err := s.d.Write(s.Context(), u.Tx(), rows(m)); err != nil {
			s.rollback(u)
		} else if err := u.Commit(s.Context()); err == nil {
			s.Errorf("%s: a unit takes it", name)
		}
		s.wantCounts(0, 0, 0)
	}
}

func (s *suite[TTx]) writeWakes() {
	if s.d.Woken() == nil {
		s.Skip("the driver does not wake")
	}
	for name, f := range map[string]func(){
		"the caller's transaction": func() { s.insert(message("a", 1)) },
		"an effect applied":        func() { s.apply(rows(message("a", 1))) },
		"a unit's commit":          func() { s.commit(s.begin(s.d, store.Intake{}), rows(message("a", 1))) },
		"a row that a unit kept": func() {
			u := s.begin(s.d, store.Intake{})
			s.write(u.Tx(), message("a", 1))
			s.commit(u)
		},
		"a rollback's instead": func() {
			_, err := s.begin(s.d, store.Intake{}).Rollback(s.Context(), rows(message("a", 1)))
			s.ok(err, "roll back")
		},
	} {
		woken := s.d.Woken()
		select {
		case <-woken:
			s.Errorf("before %s: a new channel is closed", name)
		default:
		}
		f()
		s.comes(woken, "the wake-up by "+name)
	}
}

// writeKeepsNone checks that Write keeps no memory of the caller, so that a later change to the message has
// no effect on the row.
func (s *suite[TTx]) writeKeepsNone() {
	m := message("a", 1)
	m.Headers = []skald.Header{{Name: "x", Value: []byte("y")}}
	want := m
	want.Key, want.Data, want.Headers = bytes.Clone(m.Key), bytes.Clone(m.Data),
		[]skald.Header{{Name: "x", Value: []byte("y")}}
	spoil := func() {
		clear(m.Key)
		clear(m.Data)
		clear(m.Headers[0].Value)
		m.Headers[0].Name = "z"
	}
	u := s.begin(s.d, store.Intake{})
	ms := []skald.Message{m}
	s.write(u.Tx(), ms...)
	spoil()
	clear(ms)
	s.commit(u)
	m = want
	m.Key, m.Data, m.Headers = bytes.Clone(m.Key), bytes.Clone(m.Data),
		[]skald.Header{{Name: "x", Value: []byte("y")}}
	tx := s.db.Begin(s)
	s.write(tx, m)
	spoil()
	s.ok(s.db.Commit(tx), "commit")
	for range 2 { // rows that were read are not shared, either
		got := s.allRows()
		s.wantSame(got[0], want)
		s.wantSame(got[1], want)
		clear(got[0].Key)
		clear(got[1].Data)
	}
}
