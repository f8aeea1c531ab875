// This file cuts too large records to the part that a dead letter stores.

package inbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

const (
	keptData = 64 << 10 // bytes of the data that a dead letter stores; the limit for key and headers
	keptText = 1 << 10  // bytes of each attribute that a dead letter stores
)

// oversized reports whether the delivery d is too large: its data, or everything else in d, has more than
// maxBytes bytes.
func oversized(d *broker.Delivery, maxBytes int) bool {
	return len(d.Data) > maxBytes || bytesWithoutData(d) > maxBytes
}

// bytesWithoutData returns the number of bytes of d without its data.
func bytesWithoutData(d *broker.Delivery) int { return column.MessageBytes(&d.Message) - len(d.Data) }

// cutOversized removes from d the part that a dead letter does not store. It sets d.Fault, which describes
// the whole record.
func cutOversized(d *broker.Delivery, most int) {
	rest, sum := bytesWithoutData(d), sha256.Sum256(d.Data)
	d.Fault = &broker.TooLargeError{Bytes: int64(len(d.Data) + rest), Limit: int64(most),
		SHA256: hex.EncodeToString(sum[:])}
	m := &d.Message
	m.Data = bytes.Clone(m.Data[:min(len(m.Data), keptData)]) // a copy, so the memory of the rest is freed
	if len(m.Key) > keptData {
		m.Key = nil
	}
	if rest > keptData {
		m.Headers = nil
	}
	for _, text := range []*string{&m.ID, &m.Source, &m.Type, &m.ContentType, &m.Schema, &m.Subject,
		&m.CorrelationID, &m.CausationID, &m.TraceParent} {
		*text = shortlog.Text(*text, keptText)
	}
}

// regulate pauses partitions with too many unacknowledged messages. It resumes them when they have half as
// many. If all partitions together have half of Options.Limits.Bytes, it also pauses each one that has more
// than its share.
func (in *Inbox[TTx]) regulate() {
	bound := partition.Bound{Unacknowledged: in.o.Limits.Unacknowledged, Bytes: in.o.Limits.Bytes / 2}
	pause, resume := bound.Apply(in.checkpoints.Partitions)
	for _, name := range pause {
		l := in.checkpoints.Partitions[name]
		in.sub.Pause(name)
		in.o.Logger.Warn("inbox: partition paused", "consumer", in.group, "partition", name,
			"unacknowledged", len(l.Entries), "bytes", l.Bytes)
	}
	for _, name := range resume {
		in.sub.Resume(name)
	}
}

// limit cuts a too large record. It does not change a record of a type that no build handles: the inbox skips
// that record.
func (in *Inbox[TTx]) limit(d *broker.Delivery) {
	if !oversized(d, in.o.Limits.Record) {
		return
	}
	k := store.Kind{Topic: d.Topic, Type: d.Type}
	if d.Fault != nil || d.Type == "" || in.exec.Handles(k) || in.checkpoints.LeftToOthers(k) {
		cutOversized(d, in.o.Limits.Record)
	}
}
