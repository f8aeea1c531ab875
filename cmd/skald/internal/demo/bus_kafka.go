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

	"github.com/skald-go/skald/broker/kafkabroker"
)

// kafka opens a new client for each operation, because broker.Broker has no operations to delete topics and
// groups.
type kafka struct {
	seeds string
	opts  *kafkabroker.Options
}

func (k *kafka) client(ctx context.Context, do func(ctx context.Context, cl *kgo.Client) error) error {
	cl, err := kgo.NewClient(slices.Concat(k.opts.Client,
		[]kgo.Opt{kgo.SeedBrokers(strings.Split(k.seeds, ",")...)})...)
	if err != nil {
		return fmt.Errorf("connect to Kafka: %w", err)
	}
	defer cl.Close()
	return do(ctx, cl)
}

func (k *kafka) there(ctx context.Context,
	names []string) (cluster string, ids map[string]string, err error) {
	ids = map[string]string{}
	err = k.client(ctx, func(ctx context.Context, cl *kgo.Client) error {
		found, err := kadm.NewClient(cl).Metadata(ctx, names...)
		if err != nil {
			return err
		}
		cluster = found.Cluster
		for _, t := range found.Topics {
			if t.Err == nil {
				ids[t.Topic] = t.ID.String()
			}
		}
		return nil
	})
	return cluster, ids, err
}

func (k *kafka) own(ctx context.Context, r *busRun, ids map[string]string) error {
	return k.client(ctx, func(ctx context.Context, cl *kgo.Client) error {
		adm := kadm.NewClient(cl)
		if len(r.Topics) == 0 {
			if err := unused(ctx, adm, slices.Sorted(maps.Keys(ids))); err != nil {
				return err
			}
		}
		return ownGroups(ctx, adm, groups(r.Prefix), r.topics())
	})
}

func unused(ctx context.Context, adm *kadm.Client, topics []string) (err error) {
	if len(topics) == 0 {
		return nil
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err = errors.Join(err, ends.Error()); err != nil {
		return fmt.Errorf("read the offsets of topics: %w", err)
	}
	ends.Each(func(at kadm.ListedOffset) {
		if at.Offset > 0 {
			err = notWritten(at.Topic, "the topic")
		}
	})
	return err
}

func ownGroups(ctx context.Context, adm *kadm.Client, groups, topics []string) error {
	for _, group := range groups {
		read, err := adm.FetchOffsets(ctx, group)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return fmt.Errorf("read group %s: %w", group, err)
		}
		if err := notRead(group, slices.Collect(maps.Keys(read)), topics); err != nil {
			return err
		}
	}
	return nil
}

func (k *kafka) remove(ctx context.Context, groups []string, ids map[string]string) error {
	return k.client(ctx, func(ctx context.Context, cl *kgo.Client) error {
		if err := deleteGroups(ctx, kadm.NewClient(cl), groups); err != nil || len(ids) == 0 {
			return err
		}
		if err := deleteTopics(ctx, cl, ids); err != nil {
			return fmt.Errorf("remove topics: %w", err)
		}
		return nil
	})
}

// deleteTopics deletes topics by ID, which needs Kafka 2.8.
func deleteTopics(ctx context.Context, cl *kgo.Client, ids map[string]string) error {
	ask := kmsg.NewPtrDeleteTopicsRequest()
	ask.TimeoutMillis = int32(connectTimeout.Milliseconds())
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		id, err := base64.StdEncoding.DecodeString(ids[name]) // as kadm.TopicID encodes it
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
			return fmt.Errorf("remove group %s: it still has a member: %w", busy, ctx.Err())
		case <-time.After(250 * time.Millisecond):
		}
	}
}
