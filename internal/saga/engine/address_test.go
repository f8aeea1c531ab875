package engine

import (
	"testing"
	"time"

	"github.com/skald-go/skald/internal/uuid7"
)

func TestAddressContainsTheStartOfItsSaga(t *testing.T) {
	began := time.UnixMilli(1_700_000_000_123)
	at, ok := uuid7.Begun(Address("a:b", "saga:%", uuid7.New(began)))
	if !ok || !at.Equal(began) {
		t.Errorf("it began at %v, %v", at, ok)
	}
	for _, other := range []string{Address("order", "4711", "id"), "order:" + uuid7.New(began)} {
		if at, ok := uuid7.Begun(other); ok {
			t.Errorf("%q began at %v", other, at)
		}
	}
}

func TestParseInvertsAddress(t *testing.T) {
	for _, c := range [][3]string{
		{"order", "4711", "id"}, {"a:b", "100%", "id"}, {"%3A", "line\none\r", "id"}, {"", "", ""},
	} {
		name, key, id, ok := parse(Address(c[0], c[1], c[2]))
		if !ok || name != c[0] || key != c[1] || id != c[2] {
			t.Errorf("%q became %q %q %q", c, name, key, id)
		}
	}
	for _, other := range []string{"", "order", "saga:a:b", "saga:a:b:c:d", "0198c0de-0000"} {
		if _, _, _, ok := parse(other); ok {
			t.Errorf("%q is parsed as an address", other)
		}
	}
}

func TestOwnIDDoesNotDependOnTheTime(t *testing.T) {
	c := command{Saga: "s", Step: "pay", Number: 1}
	if timelessID(c.ID(time.Now())) != c.Own() || c.Own() == "" {
		t.Errorf("%q has another own id than %q", c.ID(time.Now()), c.Own())
	}
	for _, other := range []command{
		{Saga: "t", Step: "pay", Number: 1}, {Saga: "s", Step: "pack", Number: 1},
		{Saga: "s", Step: "pay", Number: 2}, {Saga: "s", Step: "pay", Number: 1, Undo: true},
		{Saga: "s", Step: "pay", Number: 1, Occurrence: "a"},
	} {
		if other.Own() == c.Own() {
			t.Errorf("%+v has the same own id as %+v", other, c)
		}
	}
	if timelessID("another id") != "" {
		t.Error("an id of another form has an own id")
	}
}
