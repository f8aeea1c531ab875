// This file finds settings of streams, consumers and servers that lose messages silently.

package natsbroker

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/internal/feed"
)

// errUnsafe reports a stream, consumer or bucket with such a setting.
var errUnsafe = errors.New("skald cannot keep its guarantees with this setting")

// settingsStream returns the settings of a stream that loses nothing.
func settingsStream(name, description string, retain time.Duration, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Description: description, Storage: jetstream.FileStorage,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, MaxAge: retain,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, Replicas: replicas,
	}
}

// ofStream returns the setting by which a stream loses messages, or accepts them without storing them;
// empty if there is none.
func ofStream(c *jetstream.StreamConfig, retain time.Duration) string {
	old := c.Discard == jetstream.DiscardOld
	for _, s := range []struct {
		bad  bool
		name string
	}{
		{c.Retention != jetstream.LimitsPolicy, "retention " + c.Retention.String() +
			", by which a group's acknowledgement removes what other groups need: set retention to limits"},
		{c.Storage != jetstream.FileStorage,
			"storage memory, which does not outlive its server: set storage to file"},
		{c.MaxAge > 0 && (retain == 0 || c.MaxAge < retain),
			fmt.Sprintf("max_age %v, after which messages go unread: take it off, or give retain=%v if groups are never that late", c.MaxAge, c.MaxAge)},
		{old && c.MaxMsgs > 0,
			"max_msgs with discard old, by which the oldest messages go unread: set discard to new"},
		{old && c.MaxBytes > 0,
			"max_bytes with discard old, by which the oldest messages go unread: set discard to new"},
		{c.MaxMsgsPerSubject > 0 && !(c.Discard == jetstream.DiscardNew && c.DiscardNewPerSubject),
			"max_msgs_per_subject, by which the oldest messages of a partition go unread: take it off"},
		{c.AllowRollup, "allow_rollup_hdrs, by which one message may remove the others: take it off"},
		{c.AllowMsgTTL, "allow_msg_ttl, by which messages may go unread: take it off"},
		{c.NoAck, "no_ack, by which nobody hears what is durable: take it off"},
		{c.PersistMode == jetstream.AsyncPersistMode,
			"persist_mode async, by which messages are acknowledged before they are stored: set it to default"},
		{c.SubjectTransform != nil,
			"subject_transform, which moves messages out of their partitions: take it off"},
	} {
		if s.bad {
			return s.name
		}
	}
	return ""
}

// ofConsumer returns the setting by which a durable loses messages, or cannot be shared by instances; empty
// if there is none.
func ofConsumer(c *jetstream.ConsumerConfig) string {
	for _, s := range []struct {
		bad  bool
		name string
	}{
		{c.DeliverSubject != "", "a deliver_subject: it pushes; make one that is pulled"},
		{c.AckPolicy != jetstream.AckExplicitPolicy, "ack_policy " + c.AckPolicy.String() +
			", by which messages that nobody has handled count as handled: set it to explicit"},
		{c.MaxDeliver > 0,
			fmt.Sprintf("max_deliver %d, after which a message is given up in silence: set it to -1",
				c.MaxDeliver)},
		{c.InactiveThreshold > 0,
			"inactive_threshold, by which it is forgotten when nobody reads: take it off"},
		{c.MemoryStorage, "mem_storage, which does not outlive its server: take it off"},
		{c.HeadersOnly, "headers_only, by which data is lost: take it off"},
		{c.AckWait < minAckWait,
			fmt.Sprintf("ack_wait %v, in which nothing can be handled: set it to %v or more", c.AckWait,
				minAckWait)},
		{c.PauseUntil != nil, "pause_until, by which nothing comes: resume it"},
	} {
		if s.bad {
			return s.name
		}
	}
	return ""
}

const minAckWait = 2 * time.Second

// ofServer returns doubtful settings of a server.
func ofServer(version string, mostBytes int64) []skald.Finding {
	limit := skald.Finding{Name: "max_payload", Grade: skald.Fine, Observed: fmt.Sprint(mostBytes)}
	if mostBytes < feed.LargestPayload {
		limit.Grade = skald.Doubtful
		limit.Remedy = fmt.Sprintf(
			"%d or more: larger messages, which the outbox takes, are deferred with their keys",
			feed.LargestPayload)
	}
	return []skald.Finding{{Name: "version", Grade: skald.Fine, Observed: "NATS " + version},
		{Name: "sync_interval", Grade: skald.Doubtful, Observed: "clients cannot read it",
			Remedy: "set sync_interval: always, or use three replicas: by default a server writes to disk up to two minutes after its answer"}, limit}
}
