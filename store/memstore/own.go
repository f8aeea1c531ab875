// This file copies values that enter or leave the database, so that the database shares no memory with its
// callers.

package memstore

import (
	"bytes"
	"slices"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// copyMessage returns a copy of m that shares no bytes with m. Nil and empty values stay different.
func copyMessage(m skald.Message) skald.Message {
	m.Key, m.Data, m.Headers = bytes.Clone(m.Key), bytes.Clone(m.Data), slices.Clone(m.Headers)
	for i := range m.Headers {
		m.Headers[i].Value = bytes.Clone(m.Headers[i].Value)
	}
	return m
}

// copyCall returns a copy of c.
func copyCall(c *store.Call) *store.Call { return copyOf(c) }

// copyDeath returns a copy of d.
func copyDeath(d *store.Death) *store.Death { return copyOf(d) }

func copyOf[T any](of *T) *T {
	if of == nil {
		return nil
	}
	out := *of
	return &out
}
