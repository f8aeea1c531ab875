// This file estimates the memory of a message, so that limits can be in bytes.

package column

import "github.com/skald-go/skald"

// perMessage is what a message takes besides its bytes: the structs of it and of what holds it.
const perMessage, perHeader = 512, 64

// Weight is about how many bytes of memory m takes.
func Weight(m *skald.Message) int {
	n := perMessage + len(m.Key) + len(m.Data) + len(m.Headers)*perHeader
	for i := range m.Headers {
		n += len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	return n + len(m.ID) + len(m.Source) + len(m.Type) + len(m.Subject) + len(m.Schema) +
		len(m.CorrelationID) + len(m.CausationID)
}

// MessageBytes is what a store counts of m towards a page.
func MessageBytes(m *skald.Message) int { return Weight(m) - perMessage }
