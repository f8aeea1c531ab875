package cloudevents

import (
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// TypeFromRoute sets m.Type to typ, if m has no type and typ is text. typ comes from a routing key or a
// subject.
func TypeFromRoute(m *skald.Message, typ string) {
	if m.Type == "" && isText(typ) {
		m.Type = typ
	}
}

// NoteRoute sets broker.RouteHeader of m to the routing key or subject. If route is empty, it removes the
// header.
func NoteRoute(m *skald.Message, route string) {
	named := func(h skald.Header) bool { return h.Name == broker.RouteHeader }
	if slices.ContainsFunc(m.Headers, named) {
		m.Headers = slices.DeleteFunc(slices.Clone(m.Headers), named)
	}
	if route == "" {
		return
	}
	at, _ := slices.BinarySearchFunc(m.Headers, broker.RouteHeader,
		func(h skald.Header, name string) int { return strings.Compare(h.Name, name) })
	m.Headers = slices.Insert(m.Headers, at, skald.Header{Name: broker.RouteHeader, Value: []byte(route)})
}
