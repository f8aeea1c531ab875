package feed

import (
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/column"
)

// maxKept is the largest capacity, in deliveries, that an empty Buffer reuses.
const maxKept = 256

// Buffer has the prefetched deliveries of a partition. A driver embeds it if its broker delivers messages one
// by one.
type Buffer struct {
	ds    []broker.Delivery
	bytes int
}

// Put adds a delivery at the end.
func (b *Buffer) Put(d broker.Delivery) {
	b.ds, b.bytes = append(b.ds, d), b.bytes+column.Weight(&d.Message)
}

// Len returns the number of deliveries.
func (b *Buffer) Len() int { return len(b.ds) }

// Bytes returns the approximate memory of the deliveries, in bytes.
func (b *Buffer) Bytes() int { return b.bytes }

// Take removes the first n deliveries and appends them to out.
func (b *Buffer) Take(out []broker.Delivery, n int) []broker.Delivery {
	out = append(out, b.ds[:n]...)
	for i := range b.ds[:n] {
		b.bytes -= column.Weight(&b.ds[i].Message)
	}
	clear(b.ds[:n])
	switch {
	case n < len(b.ds):
		b.ds = b.ds[n:]
	case cap(b.ds) <= maxKept:
		b.ds = b.ds[:0]
	default:
		b.ds = nil
	}
	return out
}
