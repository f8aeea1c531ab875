package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/service"
)

// admin asks Kafka with a client of its own.
func (b *bus) admin(ctx context.Context, do func(ctx context.Context, adm *kadm.Client) error) error {
	cl, err := kgo.NewClient(slices.Concat(b.opts.Client, []kgo.Opt{kgo.SeedBrokers(strings.Split(b.kafka, ",")...)})...)
	if err != nil {
		return fmt.Errorf("connect to Kafka: %w", err)
	}
	defer cl.Close()
	return do(ctx, kadm.NewClient(cl))
}

// made is which of the run's topics are still there, or a *ForeignError where one of its names is another's: a topic
// with another id, a group that reads other topics. A run that died before it had noted its topics has not used them.
func (b *bus) made(ctx context.Context, e *entry) (topics []string, err error) {
	names := event.New(e.prefix).Topics()
	cluster, ids, err := b.there(ctx, names)
	if err != nil {
		return nil, err
	}
	if cluster != e.cluster {
		return nil, &ForeignError{What: "the run is not on the broker " + b.url, Remedy: "give its --broker"}
	}
	if b.kafka == "" {
		return nil, nil
	}
	for name, id := range ids {
		if len(e.topics) > 0 && e.topics[name] != id {
			return nil, &ForeignError{What: "the demo did not make the topic " + name + " at " + b.url, Remedy: "remove it, or give its own --broker; nothing is removed yet"}
		}
	}
	topics = slices.Sorted(maps.Keys(ids))
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return topics, b.admin(ctx, func(ctx context.Context, adm *kadm.Client) error {
		if len(e.topics) == 0 {
			if err := unused(ctx, adm, topics); err != nil {
				return err
			}
		}
		return ownGroups(ctx, adm, e.prefix, names)
	})
}

func unused(ctx context.Context, adm *kadm.Client, topics []string) (err error) {
	if len(topics) == 0 {
		return nil
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err = errors.Join(err, ends.Error()); err != nil {
		return fmt.Errorf("look into topics: %w", err)
	}
	ends.Each(func(at kadm.ListedOffset) {
		if at.Offset > 0 {
			err = &ForeignError{What: "there are messages that the demo did not write in " + at.Topic, Remedy: "remove the topic by hand; nothing is removed yet"}
		}
	})
	return err
}

func groups(prefix string) (names []string) {
	for _, name := range service.Names() {
		names = append(names, event.New(prefix).Group(name))
	}
	return names
}

func ownGroups(ctx context.Context, adm *kadm.Client, prefix string, topics []string) error {
	for _, group := range groups(prefix) {
		read, err := adm.FetchOffsets(ctx, group)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return fmt.Errorf("look at group %s: %w", group, err)
		}
		for topic := range read {
			if !slices.Contains(topics, topic) {
				return &ForeignError{What: "the group " + group + " reads " + topic + ", which the demo does not", Remedy: "remove the group by hand; nothing is removed yet"}
			}
		}
	}
	return nil
}

// emptyWithin is how long a group may take to notice that the members of a demo that was killed are gone.
const emptyWithin = 10 * session

// remove deletes the run's groups and then its topics. Those that are gone already are no matter.
func (b *bus) remove(ctx context.Context, e *entry, topics []string) error {
	if b.kafka == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, emptyWithin)
	defer cancel()
	return b.admin(ctx, func(ctx context.Context, adm *kadm.Client) error {
		if err := deleteGroups(ctx, adm, groups(e.prefix)); err != nil || len(topics) == 0 {
			return err
		}
		done, err := adm.DeleteTopics(ctx, topics...)
		for _, one := range done {
			if err == nil && !errors.Is(one.Err, kerr.UnknownTopicOrPartition) {
				err = one.Err
			}
		}
		if err != nil {
			return fmt.Errorf("remove topics: %w", err)
		}
		return nil
	})
}

func deleteGroups(ctx context.Context, adm *kadm.Client, names []string) error {
	for {
		done, err := adm.DeleteGroups(ctx, names...)
		busy := ""
		for _, one := range done {
			switch {
			case one.Err == nil || errors.Is(one.Err, kerr.GroupIDNotFound):
			case errors.Is(one.Err, kerr.NonEmptyGroup):
				busy = one.Group
			case err == nil:
				err = fmt.Errorf("remove group %s: %w", one.Group, one.Err)
			}
		}
		if err != nil || busy == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove group %s: somebody is still in it: %w", busy, ctx.Err())
		case <-time.After(250 * time.Millisecond):
		}
	}
}
