package cloudevents

import (
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// TypeFromRoute sets m's type to typ, from the routing key or subject, if m has none and typ is text.
func TypeFromRoute(m *skald.Message, typ string) {
	if m.Type == "" && isText(typ) {
		m.Type = typ
	}
}

// NoteRoute sets the route header of m to the routing key or subject. An empty route only removes the
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
