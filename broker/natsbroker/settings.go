// This file finds settings of streams, consumers and servers that lose messages without an error.

package natsbroker

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/internal/feed"
)

// errUnsafe is wrapped by errors about a stream, consumer or bucket with such a setting.
var errUnsafe = errors.New("skald cannot keep its guarantees with this setting")

// settingsStream returns the settings of a new stream. They lose no messages.
func settingsStream(name, description string, retain time.Duration, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Description: description, Storage: jetstream.FileStorage,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, MaxAge: retain,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, Replicas: replicas,
	}
}

// ofStream returns the setting by which a stream may lose messages, or acknowledge messages that it has not
// stored. It returns "" if there is none.
func ofStream(c *jetstream.StreamConfig, retain time.Duration) string {
	old := c.Discard == jetstream.DiscardOld
	for _, s := range []struct {
		bad  bool
		name string
	}{
		{c.Retention != jetstream.LimitsPolicy, "retention " + c.Retention.String() +
			", with which an acknowledgement of one group removes the message for other groups: set retention to limits"},
		{c.Storage != jetstream.FileStorage,
			"storage memory, which a restart of the server empties: set storage to file"},
		{c.MaxAge > 0 && (retain == 0 || c.MaxAge < retain),
			fmt.Sprintf("max_age %v, which may remove unread messages: remove it, or set retain=%v if groups are never that late", c.MaxAge, c.MaxAge)},
		{old && c.MaxMsgs > 0,
			"max_msgs with discard old, which may remove unread messages: set discard to new"},
		{old && c.MaxBytes > 0,
			"max_bytes with discard old, which may remove unread messages: set discard to new"},
		{c.MaxMsgsPerSubject > 0 && !(c.Discard == jetstream.DiscardNew && c.DiscardNewPerSubject),
			"max_msgs_per_subject, which may remove unread messages of a partition: remove it"},
		{c.AllowRollup, "allow_rollup_hdrs, with which one message may remove the others: remove it"},
		{c.AllowMsgTTL, "allow_msg_ttl, which may remove unread messages: remove it"},
		{c.NoAck, "no_ack, with which a publisher gets no acknowledgement: remove it"},
		{c.PersistMode == jetstream.AsyncPersistMode,
			"persist_mode async, with which messages are acknowledged before they are stored: set it to default"},
		{c.SubjectTransform != nil,
			"subject_transform, which moves messages out of their partitions: remove it"},
	} {
		if s.bad {
			return s.name
		}
	}
	return ""
}

// ofConsumer returns the setting by which a consumer may lose messages, or cannot be shared. It returns "" if
// there is none.
func ofConsumer(c *jetstream.ConsumerConfig) string {
	for _, s := range []struct {
		bad  bool
		name string
	}{
		{c.DeliverSubject != "", "a deliver_subject, so it is a push consumer: create a pull consumer"},
		{c.AckPolicy != jetstream.AckExplicitPolicy, "ack_policy " + c.AckPolicy.String() +
			", with which unhandled messages count as handled: set it to explicit"},
		{c.MaxDeliver > 0,
			fmt.Sprintf("max_deliver %d, after which NATS drops a message without an error: set it to -1",
				c.MaxDeliver)},
		{c.InactiveThreshold > 0,
			"inactive_threshold, after which an unused consumer is deleted: remove it"},
		{c.MemoryStorage, "mem_storage, which a restart of the server empties: remove it"},
		{c.HeadersOnly, "headers_only, with which data is missing: remove it"},
		{c.AckWait < minAckWait,
			fmt.Sprintf("ack_wait %v, which is too short to handle messages: set it to %v or more", c.AckWait,
				minAckWait)},
		{c.PauseUntil != nil, "pause_until, so it delivers no messages: resume it"},
	} {
		if s.bad {
			return s.name
		}
	}
	return ""
}

const minAckWait = 2 * time.Second

// ofServer checks the version and the limits of a server.
func ofServer(version string, mostBytes int64) []skald.Finding {
	limit := skald.Finding{Name: "max_payload", Grade: skald.Fine, Observed: fmt.Sprint(mostBytes)}
	if mostBytes < feed.LargestPayload {
		limit.Grade = skald.Doubtful
		limit.Remedy = fmt.Sprintf(
			"set it to %d or more: larger messages, which the outbox accepts, are deferred with their keys",
			feed.LargestPayload)
	}
	return []skald.Finding{{Name: "version", Grade: skald.Fine, Observed: "NATS " + version},
		{Name: "sync_interval", Grade: skald.Doubtful, Observed: "clients cannot read it",
			Remedy: "set sync_interval: always, or use three replicas: by default a server writes to disk up to two minutes after its answer"}, limit}
}
