// This file estimates the memory of a message, for limits in bytes.

package column

import "github.com/skald-go/skald"

// perMessage is the size of the structs of a message, and perHeader that of a header, in bytes.
const perMessage, perHeader = 512, 64

// Weight returns an estimate of the memory of m, in bytes.
func Weight(m *skald.Message) int {
	n := perMessage + len(m.Key) + len(m.Data) + len(m.Headers)*perHeader
	for i := range m.Headers {
		n += len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	return n + len(m.ID) + len(m.Source) + len(m.Type) + len(m.Subject) + len(m.Schema) +
		len(m.CorrelationID) + len(m.CausationID)
}

// MessageBytes returns the number of bytes that m adds to the size of a page.
func MessageBytes(m *skald.Message) int { return Weight(m) - perMessage }
