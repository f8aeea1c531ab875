package inbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/internal/weight"
	"github.com/skald-go/skald/store"
)

const (
	keptOfLarge = 64 << 10 // of the data of a record that is too large, and of its key and its headers
	keptOfText  = 1 << 10  // of each of its attributes
)

// limit makes of a record that is too large what is kept of it, and says so in its Fault. A type that nobody
// handles is left as it is: it is skipped.
func (in *Inbox[TTx]) limit(d *broker.Delivery) {
	most := in.o.Limits.Record
	rest := weight.Bytes(&d.Message) - len(d.Data)
	if k := (store.Kind{Topic: d.Topic, Type: d.Type}); len(d.Data) <= most && rest <= most || d.Fault == nil && !in.exec.Handles(k) && !in.checkpoints.LeftToOthers(k) {
		return
	}
	sum := sha256.Sum256(d.Data)
	d.Fault = &broker.TooLargeError{Bytes: int64(len(d.Data) + rest), Limit: int64(most), SHA256: hex.EncodeToString(sum[:])}
	m := &d.Message
	m.Data = bytes.Clone(m.Data[:min(len(m.Data), keptOfLarge)]) // a copy: the rest is to be free
	if len(m.Key) > keptOfLarge {
		m.Key = nil
	}
	if rest > keptOfLarge {
		m.Headers = nil
	}
	for _, text := range []*string{&m.ID, &m.Source, &m.Type, &m.ContentType, &m.Schema, &m.Subject, &m.CorrelationID, &m.CausationID, &m.TraceParent} {
		*text = shortlog.Text(*text, keptOfText)
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
