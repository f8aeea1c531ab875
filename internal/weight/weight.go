// Package weight tells how much memory messages take, so that what a process holds can be bounded by bytes.
package weight

import "github.com/skald-go/skald"

// perMessage is what a message takes besides its bytes: the structs of it and of what holds it.
const perMessage, perHeader = 512, 64

// Of is about how many bytes of memory m takes.
func Of(m *skald.Message) int {
	n := perMessage + len(m.Key) + len(m.Data) + len(m.Headers)*perHeader
	for i := range m.Headers {
		n += len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	return n + len(m.ID) + len(m.Source) + len(m.Type) + len(m.Subject) + len(m.Schema) +
		len(m.CorrelationID) + len(m.CausationID)
}

// Bytes is what a store counts of m towards a page.
func Bytes(m *skald.Message) int { return Of(m) - perMessage }
