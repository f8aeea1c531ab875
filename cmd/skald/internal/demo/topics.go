package demo

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-go/skald/cmd/skald/internal/exit"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/service"
)

// admin asks Kafka with a client of its own.
func (b *bus) admin(ctx context.Context, do func(ctx context.Context, adm *kadm.Client) error) error {
	return b.client(ctx,
		func(ctx context.Context, cl *kgo.Client) error { return do(ctx, kadm.NewClient(cl)) })
}

func (b *bus) client(ctx context.Context, do func(ctx context.Context, cl *kgo.Client) error) error {
	cl, err := kgo.NewClient(slices.Concat(b.opts.Client,
		[]kgo.Opt{kgo.SeedBrokers(strings.Split(b.kafka, ",")...)})...)
	if err != nil {
		return fmt.Errorf("connect to Kafka: %w", err)
	}
	defer cl.Close()
	return do(ctx, cl)
}

// made is which of the run's topics are still there, with their ids, or a *exit.ForeignError where one of its
// names is another's: a topic with another id, a group that reads other topics. A run that died before it had
// noted its topics has not used them.
func (b *bus) made(ctx context.Context, e *entry) (ids map[string]string, err error) {
	names := event.New(e.prefix).Topics()
	cluster, ids, err := b.there(ctx, names)
	if err != nil {
		return nil, err
	}
	if cluster != e.cluster {
		return nil, &exit.ForeignError{What: "the run is not on the broker " + b.url,
			Remedy: "give its --broker"}
	}
	if b.forgetful() {
		return nil, nil
	}
	for name, id := range ids {
		if len(e.topics) > 0 && e.topics[name] != id {
			return nil, &exit.ForeignError{What: "the demo did not make the topic " + name + " at " + b.url,
				Remedy: "remove it, or give its own --broker; nothing is removed yet"}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	switch {
	case b.nats != nil:
		return ids, b.ownOnNATS(ctx, e, ids)
	case b.rabbit != nil: // a group's queue is of one topic, and its name says so
		return ids, nil
	}
	return ids, b.admin(ctx, func(ctx context.Context, adm *kadm.Client) error {
		if len(e.topics) == 0 {
			if err := unused(ctx, adm, slices.Sorted(maps.Keys(ids))); err != nil {
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
			err = &exit.ForeignError{What: "there are messages that the demo did not write in " + at.Topic,
				Remedy: "remove the topic by hand; nothing is removed yet"}
		}
	})
	return err
}

func groups(prefix string) (names []string) {
	for _, name := range service.Names() {
		names = append(names, event.New(prefix).Group(name))
	}
	return append(names, event.New(prefix).Group(event.Tracker))
}

func ownGroups(ctx context.Context, adm *kadm.Client, prefix string, topics []string) error {
	for _, group := range groups(prefix) {
		read, err := adm.FetchOffsets(ctx, group)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return fmt.Errorf("look at group %s: %w", group, err)
		}
		for topic := range read {
			if !slices.Contains(topics, topic) {
				return &exit.ForeignError{What: "the group " + group + " reads " + topic +
					", which the demo does not", Remedy: "remove the group by hand; nothing is removed yet"}
			}
		}
	}
	return nil
}

// emptyWithin is how long a group may take to notice that the members of a demo that was killed are gone.
const emptyWithin = 10 * session

// remove deletes the run's groups and then its topics, by their ids: one that was made anew since they were
// looked at is another's. Those that are gone already are no matter.
func (b *bus) remove(ctx context.Context, e *entry, ids map[string]string) error {
	if b.forgetful() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, emptyWithin)
	defer cancel()
	switch {
	case b.nats != nil:
		return b.removeOnNATS(ctx, e, ids)
	case b.rabbit != nil:
		return b.removeOnRabbitMQ(ctx, e, ids)
	}
	return b.client(ctx, func(ctx context.Context, cl *kgo.Client) error {
		if err := deleteGroups(ctx, kadm.NewClient(cl), groups(e.prefix)); err != nil || len(ids) == 0 {
			return err
		}
		if err := deleteTopics(ctx, cl, ids); err != nil {
			return fmt.Errorf("remove topics: %w", err)
		}
		return nil
	})
}

// deleteTopics needs Kafka 2.8, as topics with ids do.
func deleteTopics(ctx context.Context, cl *kgo.Client, ids map[string]string) error {
	ask := kmsg.NewPtrDeleteTopicsRequest()
	ask.TimeoutMillis = int32(connectTimeout.Milliseconds())
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		id, err := base64.StdEncoding.DecodeString(ids[name]) // as kadm.TopicID has it
		one := kmsg.NewDeleteTopicsRequestTopic()
		if copy(one.TopicID[:], id) != len(one.TopicID) || err != nil {
			return fmt.Errorf("the id of topic %s is %q", name, ids[name])
		}
		ask.Topics = append(ask.Topics, one)
	}
	done, err := ask.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, one := range done.Topics {
		err := kerr.ErrorForCode(one.ErrorCode)
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) &&
			!errors.Is(err, kerr.UnknownTopicID) {
			return err
		}
	}
	return nil
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
