package inbox

import (
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

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
	if !is(d, in.o.Limits.Record) {
		return
	}
	k := store.Kind{Topic: d.Topic, Type: d.Type}
	if d.Fault != nil || d.Type == "" || in.exec.Handles(k) || in.checkpoints.LeftToOthers(k) {
		cut(d, in.o.Limits.Record)
	}
}
