// This file makes of a record that is too large what is kept of it as a dead letter.

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
	keptData = 64 << 10 // of the data, and of the key and the headers
	keptText = 1 << 10  // of each of the attributes
)

// oversized tells whether the data of d, or all else of it, oversized more than most bytes.
func oversized(d *broker.Delivery, most int) bool {
	return len(d.Data) > most || bytesBesideData(d) > most
}

// bytesBesideData returns the bytes of d without its data.
func bytesBesideData(d *broker.Delivery) int { return column.MessageBytes(&d.Message) - len(d.Data) }

// cutOversized leaves of d what is kept of it, and says in its Fault what it was.
func cutOversized(d *broker.Delivery, most int) {
	rest, sum := bytesBesideData(d), sha256.Sum256(d.Data)
	d.Fault = &broker.TooLargeError{Bytes: int64(len(d.Data) + rest), Limit: int64(most),
		SHA256: hex.EncodeToString(sum[:])}
	m := &d.Message
	m.Data = bytes.Clone(m.Data[:min(len(m.Data), keptData)]) // a copy: the rest is to be free
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

// regulate pauses the partitions that have too much unacknowledged and resumes those that have worked half of
// it off. Where all partitions together have half of Options.Limits.Bytes, a partition that has more than its
// share of the other half waits, too.
func (in *Inbox[TTx]) regulate() {
	bound := partition.Bound{Held: in.o.Limits.Held, Bytes: in.o.Limits.Bytes / 2}
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

// limit makes of a record that is too large what is kept of it. A type that nobody handles is left as it is:
// it is skipped.
func (in *Inbox[TTx]) limit(d *broker.Delivery) {
	if !oversized(d, in.o.Limits.Record) {
		return
	}
	k := store.Kind{Topic: d.Topic, Type: d.Type}
	if d.Fault != nil || d.Type == "" || in.exec.Handles(k) || in.checkpoints.LeftToOthers(k) {
		cutOversized(d, in.o.Limits.Record)
	}
}
