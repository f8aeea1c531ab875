package storetest

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

func messageTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"ByteForByte":   (*suite[TTx]).messageByteForByte,
		"EveryField":    (*suite[TTx]).messageEveryField,
		"TextThatIsNot": (*suite[TTx]).messageTextThatIsNot,
		"Times":         (*suite[TTx]).messageTimes,
	}
}

// wantSame fails the test unless a row equals m, byte for byte.
func (s *suite[TTx]) wantSame(got store.Row, m skald.Message) {
	s.Helper()
	if got.Seq <= 0 || got.Bucket != column.Bucket(&m) {
		s.Errorf("the row has number %d and bucket %d, want bucket %d", got.Seq, got.Bucket,
			column.Bucket(&m))
	}
	if got.Sequence != "" && got.Sequence != fmt.Sprintf("%020d", got.Seq) {
		s.Errorf("the row's sequence is %q", got.Sequence)
	}
	m.Source, m.Sequence = Source, got.Sequence
	for _, diff := range differences(got.Message, m) {
		s.Error(diff)
	}
}

// differences compares all fields, including future ones.
func differences(got, want skald.Message) (out []string) {
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		a, b := g.Field(i).Interface(), w.Field(i).Interface()
		if !alike(a, b) {
			out = append(out, fmt.Sprintf("%s is %#.200v, want %#.200v", g.Type().Field(i).Name, a, b))
		}
	}
	return out
}

func alike(a, b any) bool {
	switch a := a.(type) {
	case time.Time:
		return a.Equal(b.(time.Time))
	case []byte:
		return bytes.Equal(a, b.([]byte)) && (a == nil) == (b.([]byte) == nil)
	case []skald.Header:
		return slices.EqualFunc(a, b.([]skald.Header), func(a, b skald.Header) bool {
			return a.Name == b.Name && bytes.Equal(a.Value, b.Value)
		})
	}
	return reflect.DeepEqual(a, b)
}

// fill sets every field of a struct to a different value, by reflection.
func fill(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("gefüllt-" + name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Struct:
		if _, ok := v.Interface().(time.Time); ok {
			v.Set(reflect.ValueOf(time.UnixMicro(1_700_000_000_123_456).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Field(i).Name)
		}
	}
}

// filled returns a message with every field set to a valid value.
func filled() skald.Message {
	var m skald.Message
	fill(reflect.ValueOf(&m).Elem(), "")
	m.ID, m.Topic, m.Type = newID(), "orders", "order.placed"
	m.Headers = []skald.Header{{Name: "x-a", Value: []byte{0, 1, 0xff}}, {Name: "x-b"},
		{Name: "x-a", Value: []byte("größe")}}
	m.TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	m.CorrelationID, m.CausationID = newID(), newID()
	m.Schema = "https://example.test/schema/7"
	m.ContentType, m.Data = "application/avro", []byte{0, 0xc3, 0x28, '\\', '\'', 10}
	return m
}

// everyWay writes m in each way into the outbox, and then defers it.
func (s *suite[TTx]) everyWay(m skald.Message) {
	s.Helper()
	base, _ := s.rowsSince(s.base)
	for _, way := range []func(){
		func() { s.insert(m) },
		func() { s.insert(message("other", 0), m, message("other", 0)) },
		func() { s.apply(rows(m)) },
		func() {
			u := s.begin(s.d, store.Intake{})
			s.write(u.Tx(), m)
			s.commit(u)
		},
		func() { s.commit(s.begin(s.d, store.Intake{}), rows(m)) },
	} {
		way()
		tip, got := s.rowsSince(base)
		got = slices.DeleteFunc(got, func(r store.Row) bool { return r.ID != m.ID })
		if len(got) != 1 {
			s.Fatalf("%d rows of 1 arrived", len(got))
		}
		s.wantSame(got[0], m)
		base = tip
		s.setAside(store.DeferredRow{Row: got[0], Attempts: 1})
		aside := s.readDue(1000)
		if len(aside) != 1 {
			s.Fatalf("%d rows are deferred, want 1", len(aside))
		}
		if aside[0].Seq != got[0].Seq || aside[0].Bucket != got[0].Bucket {
			s.Errorf("row %d of bucket %d is deferred as %d of %d", got[0].Seq, got[0].Bucket, aside[0].Seq,
				aside[0].Bucket)
		}
		s.wantSame(aside[0].Row, m)
		s.free(aside[0].Row)
	}
	s.base = base
}

func (s *suite[TTx]) messageEveryField() { s.everyWay(filled()) }

func (s *suite[TTx]) messageByteForByte() {
	for name, f := range map[string]func(*skald.Message){
		"plain":            func(*skald.Message) {},
		"no key":           func(m *skald.Message) { m.Key = nil },
		"empty key":        func(m *skald.Message) { m.Key = []byte{} },
		"binary key":       func(m *skald.Message) { m.Key = []byte{0, 0xff, 10, 0xc3, 0x28} },
		"NUL in key":       func(m *skald.Message) { m.Key = []byte("a\x00b") },
		"unicode key":      func(m *skald.Message) { m.Key = []byte("größe ☃ \u2028 \U0001f600") },
		"hex in key":       func(m *skald.Message) { m.Key = []byte(`\x4142`) },
		"quotes in key":    func(m *skald.Message) { m.Key = []byte(`'"\n\\{},NULL`) },
		"tombstone":        func(m *skald.Message) { m.Data = nil },
		"empty data":       func(m *skald.Message) { m.Data = []byte{} },
		"empty bytes":      func(m *skald.Message) { m.Data, m.ContentType = []byte{}, "application/avro" },
		"binary tombstone": func(m *skald.Message) { m.Data, m.ContentType = nil, "application/avro" },
		"all bytes": func(m *skald.Message) {
			m.ContentType = "application/octet-stream"
			for i := range 256 {
				m.Data = append(m.Data, byte(i))
			}
		},
		"text": func(m *skald.Message) {
			m.Data, m.ContentType = []byte("größe\r\n\t"), "text/plain; charset=utf-8"
		},
		"no content type": func(m *skald.Message) { m.Data, m.ContentType = []byte{1, 0, 0xff}, "" },
		"nothing at all":  func(m *skald.Message) { m.Data, m.ContentType = nil, "" },
		"JSON as it is written": func(m *skald.Message) {
			m.Data = []byte(" {\"b\": 1.0, \"a\":\t1e400, \"a\":\"\\u00e4ä\\\\x41\"}\n")
		},
		"JSON by another name": func(m *skald.Message) {
			m.ContentType = "application/cloudevents+json; charset=utf-8"
		},
		"JSON in capitals":  func(m *skald.Message) { m.ContentType = "Application/JSON" },
		"JSON that is none": func(m *skald.Message) { m.Data = []byte(`{"a":`) },
		"backslashes":       func(m *skald.Message) { m.Data = []byte(`"\\x41 \\ \\\\"`) },
		"JSON null":         func(m *skald.Message) { m.Data = []byte(`null`) },
		"one empty header":  func(m *skald.Message) { m.Headers = []skald.Header{{Name: "x"}} },
		"headers": func(m *skald.Message) {
			m.Headers = []skald.Header{{Name: "b", Value: []byte("2")}, {Name: "a", Value: []byte{0, 0xff}},
				{Name: "b", Value: []byte("1")}, {Name: "B"}}
		},
		"unicode": func(m *skald.Message) {
			m.Type, m.Subject = "bestellung.größe☃", `"Straße" \ \U0001f600 %s`
		},
		"no optional attributes": func(m *skald.Message) {
			m.Subject, m.Schema, m.CorrelationID, m.CausationID, m.TraceParent = "", "", "", "", ""
		},
		"foreign correlation": func(m *skald.Message) {
			m.CorrelationID, m.CausationID = "order/7", "größe 7"
		},
		"no JSON key": func(m *skald.Message) { m.Key, m.ContentType = nil, "application/avro" },
	} {
		before := s.Failed()
		s.everyWay(changed(f))
		if s.Failed() && !before {
			s.Fatalf("that was: %s", name)
		}
	}
}

// messageTextThatIsNot checks that data with a JSON content type that is not valid text is stored unchanged
// or refused, and never changed.
func (s *suite[TTx]) messageTextThatIsNot() {
	for _, data := range [][]byte{[]byte("\"\xff\""), []byte("\"a\x00b\""), {0}} {
		m := message("a", 1)
		m.Data = data
		base, _ := s.rowsSince(s.base)
		stored, err := s.d.Apply(s.Context(), rows(m))
		tip, got := s.rowsSince(base)
		s.base = tip
		switch {
		case err != nil && len(got) == 0:
		case err == nil && slices.Equal(stored, []bool{true}) && len(got) == 1:
			s.wantSame(got[0], m)
		default:
			s.Errorf("%q: stored %v, %d rows, error %v", data, stored, len(got), err)
		}
	}
}

func (s *suite[TTx]) messageTimes() {
	for _, at := range []time.Time{
		time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
		time.Date(2026, 7, 1, 12, 0, 0, 123_456_000, time.FixedZone("east", 5*3600+1800)),
		time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC),
		time.Date(2999, 12, 31, 23, 59, 59, 999_000_000, time.UTC),
	} {
		s.everyWay(changed(func(m *skald.Message) { m.Time = at }))
	}
}
