package exec

import (
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

func delivery(data string) broker.Delivery {
	return broker.Delivery{Partition: "orders/0", Position: 7,
		Message: skald.Message{ID: "m-1", Source: "/shop", Topic: "orders",
			Type: "placed", Data: []byte(data), Headers: []skald.Header{{Name: "id", Value: []byte("h-1")},
				{Name: "id", Value: []byte("h-2")}}}}
}

// A message is identified by the user's choice. If the choice finds no id, the message has none.
func TestIdentities(t *testing.T) {
	d := delivery(`{"order":{"id":"o-1","number":12}}`)
	by := func(name string) identityFunc {
		return func(d broker.Delivery) (store.Identity, error) { return ByHeader(name, d) }
	}
	field := func(path ...string) identityFunc {
		return func(d broker.Delivery) (store.Identity, error) { return ByField("orders", path, d) }
	}
	for name, c := range map[string]struct {
		by   identityFunc
		want store.Identity // zero: no id
	}{
		"its own":      {ByID, store.Identity{Source: "/shop", ID: "m-1"}},
		"a header":     {by("id"), store.Identity{Source: "/shop", ID: "h-1"}},
		"no header":    {by("other"), store.Identity{}},
		"a text":       {field("order", "id"), store.Identity{Source: "orders", ID: "o-1"}},
		"a number":     {field("order", "number"), store.Identity{Source: "orders", ID: "12"}},
		"an object":    {field("order"), store.Identity{}},
		"no field":     {field("order", "other"), store.Identity{}},
		"its position": {ByPosition, store.Identity{Source: Position, ID: "orders-0-7"}},
		"nothing at all": {func(broker.Delivery) (store.Identity, error) { return store.Identity{}, nil },
			store.Identity{}},
		"bytes that are not text": {func(broker.Delivery) (store.Identity, error) {
			return ByField("orders", []string{"id"}, delivery("{\"id\":\"a\x80\"}"))
		}, store.Identity{}},
		"half a surrogate pair": {func(broker.Delivery) (store.Identity, error) {
			return ByField("orders", []string{"id"}, delivery(`{"id":"a\ud800"}`))
		}, store.Identity{}},
	} {
		x := New[*memstore.Tx](memstore.New(nil), Config{Handle: time.Minute})
		e := &partition.Entry{Delivery: d}
		x.Identify([]*partition.Entry{e}, c.by)
		id, err := e.Given, e.Unknown
		if none := c.want == (store.Identity{}); none != errors.Is(err, ErrNoID) || id.ID != c.want.ID ||
			!none && id != c.want {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
	x := New[*memstore.Tx](memstore.New(nil), Config{Handle: time.Minute})
	panics := func(broker.Delivery) (store.Identity, error) { panic("no map") }
	e := &partition.Entry{Delivery: d}
	if x.Identify([]*partition.Entry{e}, panics); e.Unknown == nil {
		t.Error("a panic returned no error")
	}
}

// Two messages have the same hash if topic, type, key and payload are equal. They differ if only their
// concatenations are equal.
func TestHashSeparatesParts(t *testing.T) {
	a, b := delivery("bc"), delivery("c")
	a.Key, b.Key = []byte("a"), []byte("ab")
	one, _ := ByHash(a)
	two, _ := ByHash(b)
	same, _ := ByHash(a)
	if one == two || one != same {
		t.Errorf("%v and %v, %v", one, two, same)
	}
}

// A copy that counts its attempts in a field has the same payload. Encoding it again, and parent objects
// without other fields, make no difference.
func TestWithoutAField(t *testing.T) {
	plain := string(Without([]byte(`{"n": 1}`), []string{"meta", "attempt"}))
	for _, copied := range []string{`{"n":1,"meta":{"attempt":3}}`, `{"meta":{"attempt":4},"n":1}`} {
		if got := string(Without([]byte(copied), []string{"meta", "attempt"})); got != plain {
			t.Errorf("%s stepChange %s, want %s", copied, got, plain)
		}
	}
	if got := string(Without([]byte(`{"meta":{"attempt":3,"by":"x"}}`),
		[]string{"meta", "attempt"})); got != `{"meta":{"by":"x"}}` {
		t.Errorf("it stepChange %s", got)
	}
	for _, other := range []string{"[1]", "no JSON", `{"a":1} {"b":2}`} {
		if got := string(Without([]byte(other), []string{"a"})); got != other {
			t.Errorf("%s stepChange %s", other, got)
		}
	}
}
