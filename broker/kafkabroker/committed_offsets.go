// This file reads the committed offsets of a group, and the notes in their metadata.

package kafkabroker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

// notePrefix is the beginning of the metadata of an offset that Skald committed.
const notePrefix = "skald "

// note is the metadata of a committed offset, as JSON. Kafka limits metadata to 4,096 bytes by default.
type note struct {
	feed.OwnerDatabase
	Topic string `json:"topic"` // the topic's ID; after recreation the offset is invalid
	First int64  `json:"first"` // the first offset of the group; -1 if unknown
}

func (n note) text() string {
	text, err := json.Marshal(n)
	if err != nil {
		return ""
	}
	return notePrefix + string(text)
}

// noted is a parsed note. ours is false if another program committed the offset.
type noted struct {
	note
	ours bool
}

func parseNote(metadata string) (n noted) {
	text, ours := strings.CutPrefix(metadata, notePrefix)
	n.ours = ours && json.Unmarshal([]byte(text), &n.note) == nil
	return n
}

// groupOffsets has the committed offsets of a group in all topics.
type groupOffsets kadm.OffsetResponses

func (b *Broker) committedOffsets(ctx context.Context, group string) (groupOffsets, error) {
	committed, err := within(ctx, func() (kadm.OffsetResponses, error) {
		return b.adm.FetchOffsets(ctx, group)
	})
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("read the committed offsets of the group: %w",
			withRight(orUnavailable(err), "READ", "the group"))
	}
	return groupOffsets(committed), nil
}

// hasAny returns true if the group has any committed offset.
func (s groupOffsets) hasAny() bool {
	for _, ps := range s {
		for _, p := range ps {
			if p.Err == nil && p.At >= 0 {
				return true
			}
		}
	}
	return false
}

func (s groupOffsets) note(topic string, partition int32) noted {
	return parseNote(s[topic][partition].Metadata)
}

// check returns an error if an offset was committed for another database than that of g.
func (s groupOffsets) check(g *broker.Group) error {
	for _, ps := range s {
		for _, p := range ps {
			if err := feed.Belongs(g, parseNote(p.Metadata).OwnerDatabase); err != nil {
				return err
			}
		}
	}
	return nil
}

// retained has the first and the end offsets of the partitions of topics.
type retained struct{ first, end kadm.ListedOffsets }

// retained reads the first and the end offsets of topics. It omits partitions that do not answer, so that
// they do not block the other partitions.
func (b *Broker) retained(ctx context.Context, topics []string) (r retained, err error) {
	if len(topics) == 0 { // an empty list would select all topics
		return r, nil
	}
	var some *kadm.ShardErrors
	if r.first, err = within(ctx, func() (kadm.ListedOffsets, error) {
		return b.adm.ListStartOffsets(ctx, topics...)
	}); err == nil || errors.As(err, &some) {
		r.end, err = within(ctx, func() (kadm.ListedOffsets, error) {
			return b.adm.ListEndOffsets(ctx, topics...)
		})
	}
	if err != nil && !errors.As(err, &some) {
		return r, fmt.Errorf("read the retained offsets of partitions: %w",
			withRight(orUnavailable(err), "READ", "the topics"))
	}
	return r, nil
}

// offsetRange returns the first and the end offset of a partition. If the partition did not answer, it
// returns the widest range, so that no position counts as removed.
func (r retained) offsetRange(topic string, partition int32) (first, end int64) {
	f, known := r.first.Lookup(topic, partition)
	e, ends := r.end.Lookup(topic, partition)
	if !known || !ends || f.Err != nil || e.Err != nil {
		return 0, math.MaxInt64
	}
	return f.Offset, e.Offset
}

// Adopt changes the owner in the metadata of all committed offsets. Kafka refuses this while the group has
// members.
func (b *Broker) Adopt(ctx context.Context, g broker.Group, from string) error {
	committed, err := b.committedOffsets(ctx, g.Name)
	if err != nil {
		return fmt.Errorf("adopt group %q: %w", g.Name, err)
	}
	if !committed.hasAny() {
		return fmt.Errorf("adopt group %q: %w", g.Name, broker.ErrNoGroup)
	}
	at := kadm.Offsets{}
	for _, ps := range committed {
		for _, p := range ps {
			n := parseNote(p.Metadata)
			takes, err := feed.Adoptable(&g, n.OwnerDatabase, from)
			if err != nil {
				return fmt.Errorf("adopt: %w", err)
			}
			if !takes || p.At < 0 {
				continue
			}
			n.OwnerDatabase = feed.StoredOwner(&g)
			p.Metadata = n.text()
			at.Add(p.Offset)
		}
	}
	if len(at) == 0 {
		return nil
	}
	stored, err := within(ctx, func() (kadm.OffsetResponses, error) {
		return b.adm.CommitOffsets(ctx, g.Name, at)
	})
	if err == nil {
		err = stored.Error()
	}
	if isAny(err, kerr.UnknownMemberID, kerr.RebalanceInProgress) {
		return fmt.Errorf("adopt group %q: it has members: stop them first: %w", g.Name, err)
	}
	if err != nil {
		return fmt.Errorf("adopt group %q: %w", g.Name, withRight(orUnavailable(err), "READ", "the group"))
	}
	return nil
}
