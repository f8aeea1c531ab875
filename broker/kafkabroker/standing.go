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

// notePrefix is what the metadata of an offset begins with that Skald committed.
const notePrefix = "skald "

// A note is the metadata of a committed offset. Kafka takes up to 4,096 bytes of it.
type note struct {
	feed.OwnerDatabase
	Topic string `json:"topic"` // its id: offsets of another one mean nothing
	First int64  `json:"first"` // where the group began; -1: not known
}

func (n note) text() string {
	text, err := json.Marshal(n)
	if err != nil {
		return ""
	}
	return notePrefix + string(text)
}

// A noted is the note of an offset. Ours is false of what another client committed.
type noted struct {
	note
	ours bool
}

func parseNote(metadata string) (n noted) {
	text, ours := strings.CutPrefix(metadata, notePrefix)
	n.ours = ours && json.Unmarshal([]byte(text), &n.note) == nil
	return n
}

// A standing is what a group has committed, of all topics.
type standing kadm.OffsetResponses

func (b *Broker) standing(ctx context.Context, group string) (standing, error) {
	committed, err := b.adm.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("look up what the group has committed: %w",
			lacking(orAway(err), "READ", "the group"))
	}
	return standing(committed), nil
}

// known tells whether the group has committed anything.
func (s standing) known() bool {
	for _, ps := range s {
		for _, p := range ps {
			if p.Err == nil && p.At >= 0 {
				return true
			}
		}
	}
	return false
}

func (s standing) note(topic string, partition int32) noted {
	return parseNote(s[topic][partition].Metadata)
}

// check refuses a group whose offsets were committed for another database.
func (s standing) check(g *broker.Group) error {
	for _, ps := range s {
		for _, p := range ps {
			if err := feed.Belongs(g, parseNote(p.Metadata).OwnerDatabase); err != nil {
				return err
			}
		}
	}
	return nil
}

// A retained is what Kafka has of topics: from the first offset to behind the last.
type retained struct{ first, end kadm.ListedOffsets }

// retained leaves out partitions that do not answer: these do not hold up the others.
func (b *Broker) retained(ctx context.Context, topics []string) (r retained, err error) {
	if len(topics) == 0 { // which would list all there are
		return r, nil
	}
	var some *kadm.ShardErrors
	if r.first, err = b.adm.ListStartOffsets(ctx, topics...); err == nil || errors.As(err, &some) {
		r.end, err = b.adm.ListEndOffsets(ctx, topics...)
	}
	if err != nil && !errors.As(err, &some) {
		return r, fmt.Errorf("look up what partitions retain: %w",
			lacking(orAway(err), "READ", "the topics"))
	}
	return r, nil
}

// of is what Kafka has of a partition; of one that does not answer, anything.
func (r retained) of(topic string, partition int32) (first, end int64) {
	f, known := r.first.Lookup(topic, partition)
	e, ends := r.end.Lookup(topic, partition)
	if !known || !ends || f.Err != nil || e.Err != nil {
		return 0, math.MaxInt64
	}
	return f.Offset, e.Offset
}

// Adopt writes the owner into the metadata of all offsets, which stay. Kafka refuses that while the group has
// members.
func (b *Broker) Adopt(ctx context.Context, g broker.Group, from string) error {
	committed, err := b.standing(ctx, g.Name)
	if err != nil {
		return fmt.Errorf("adopt group %q: %w", g.Name, err)
	}
	if !committed.known() {
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
			n.OwnerDatabase = feed.Of(&g)
			p.Metadata = n.text()
			at.Add(p.Offset)
		}
	}
	if len(at) == 0 {
		return nil
	}
	stored, err := b.adm.CommitOffsets(ctx, g.Name, at)
	if err == nil {
		err = stored.Error()
	}
	if faultAny(err, kerr.UnknownMemberID, kerr.RebalanceInProgress) {
		return fmt.Errorf("adopt group %q: it has members: stop them first: %w", g.Name, err)
	}
	if err != nil {
		return fmt.Errorf("adopt group %q: %w", g.Name, lacking(orAway(err), "READ", "the group"))
	}
	return nil
}
