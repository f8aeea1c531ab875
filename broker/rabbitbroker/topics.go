package rabbitbroker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
	"github.com/skald-go/skald/broker/internal/perkey"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/uuid7"
)

const (
	recordName  = "skald"         // the record that names this RabbitMQ
	makingName  = "skald.making"  // exclusive to whoever makes topics
	membersName = "skald.members" // the exchange by which the members of a group hear of each other
	// the exchange and the queue that keep what a policy makes a partition's queue drop
	droppedName       = "skald.dropped"
	defaultPartitions = 8
	maxPartitions     = 256

	// deliveryLimit is what no message reaches: without a limit, and with RabbitMQ 4's own of 20, what comes
	// again too often is dropped or comes behind newer messages.
	deliveryLimit = 2_000_000_000
)

var (
	// ErrSettings is wrapped by errors about an exchange or a queue that exists, as Skald cannot use it.
	ErrSettings = errors.New("skald cannot keep its promises on it")

	errName = errors.New(
		"a name is 1 to 249 of A-Z a-z 0-9 . _ -, and that of a queue, group/topic/partition, at most 255")
	errNoPartitions = errors.New("there is another message in it")
	errMissing      = errors.New("it is missing, and nobody asked for it to be declared")
)

// topic is an exchange that was looked at.
type topic struct {
	name       string
	id         string
	partitions int // 0: it has none, for its routing keys are types
}

// fact is what a record says: a queue with one message, which everybody reads and nobody takes.
type fact struct {
	ID         string `json:"id"`
	Partitions int    `json:"partitions,omitempty"`
}

// Record is the name of the queue that says how many partitions a topic has.
func Record(topic string) string { return recordName + "/" + topic }

// Queue is the name of the queue of a group's partition.
func Queue(group, topic string, partition int) string {
	return group + "/" + topic + "/" + strconv.Itoa(partition)
}

// routingKey is LANE.TYPE, cut where AMQP cuts.
func routingKey(partition int, kind string) string {
	key := strconv.Itoa(partition) + "." + kind
	return key[:min(len(key), 255)]
}

// recordArgs are the arguments of a record's queue, from which nothing may go however often it is read.
func recordArgs() amqp.Table {
	return amqp.Table{"x-queue-type": "quorum", "x-overflow": "reject-publish",
		"x-delivery-limit": int64(deliveryLimit)}
}

// partitionArgs are the arguments of a partition's queue: those that keep messages from being dropped or from
// coming out of order. A policy wins over them, but not over where it goes what is dropped.
func partitionArgs() amqp.Table {
	return amqp.Table{
		"x-queue-type": "quorum", "x-single-active-consumer": true,
		"x-overflow": "reject-publish", "x-delivery-limit": int64(deliveryLimit),
		"x-dead-letter-exchange": droppedName,
	}
}

// look asks RabbitMQ about a topic.
func (b *Broker) look(ctx context.Context, conn *amqp.Connection, name string) (topic, error) {
	t := topic{name: name}
	if !feed.OK(name) {
		return t, fmt.Errorf("topic %q: %w: %w", name, errName, broker.ErrNoTopic)
	}
	err := ask(ctx, conn, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(name, amqp.ExchangeTopic, true, false, false, false, nil)
	})
	if notFound(err) {
		return t, fmt.Errorf("topic %q: there is no such exchange in %q: %w", name, b.opts.VHost,
			broker.ErrNoTopic)
	}
	if err == nil && !b.opts.ByType {
		var f fact
		f, err = fetch(ctx, conn, Record(name))
		t.id, t.partitions = f.ID, f.Partitions
		if notFound(err) || err == nil && (f.Partitions < 1 || f.Partitions > maxPartitions) {
			err = fmt.Errorf("the queue %q does not say how many partitions it has, so MakeTopics did not make it (if it is a team's own: ByType, route=type): %w: %w", Record(name), ErrSettings, cmp.Or(err, errNoPartitions))
		}
	}
	if err != nil {
		return t, fmt.Errorf("look up topic %q: %w", name, orAway(err))
	}
	return t, nil
}

// fetch is what the message of a record says. Who reads it has it for a moment, alone, and gives it back;
// others ask again.
func fetch(ctx context.Context, conn *amqp.Connection, record string) (f fact, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		found := false
		err := ask(ctx, conn, func(ch *amqp.Channel) error {
			d, ok, err := ch.Get(record, false)
			if err != nil || !ok {
				return err
			}
			found = true
			if err := json.Unmarshal(d.Body, &f); err != nil {
				return fmt.Errorf("what is in the queue %q is none of Skald's: %w: %w", record,
					ErrSettings, err)
			}
			return nil
		})
		if found || err != nil {
			return f, err
		}
		select {
		case <-ctx.Done():
			return f, fmt.Errorf("the message of the queue %q is gone (has it expired, by a policy with message-ttl?), or somebody holds it: %w", record, ctx.Err())
		case <-time.After(backoff.After(1, 5*time.Millisecond, 20*time.Millisecond)):
		}
	}
}

// write makes a record that says f, unless it says something already; it returns what is true. Nobody else
// writes meanwhile, and nobody reads what is not there yet.
func write(ctx context.Context, conn *amqp.Connection, record string, f fact) (fact, error) {
	err := ask(ctx, conn, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclare(record, true, false, false, false, recordArgs())
		if err != nil || q.Messages > 0 {
			return err
		}
		text, err := json.Marshal(f)
		if err == nil {
			err = ch.Confirm(false)
		}
		if err != nil {
			return err
		}
		sent, err := ch.PublishWithDeferredConfirm("", record, true, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, ContentType: "application/json", Body: text})
		if err != nil {
			return err
		}
		if ok, err := sent.WaitContext(ctx); err != nil || !ok {
			return errors.Join(err, errors.New("RabbitMQ did not confirm it"))
		}
		return nil
	})
	if err != nil {
		return fact{}, err
	}
	return fetch(ctx, conn, record)
}

// alone waits until nobody else makes topics, until the connection ends.
func alone(ctx context.Context, conn *amqp.Connection) error {
	for {
		err := ask(ctx, conn, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(makingName, false, true, true, false, nil)
			return err
		})
		if code(err) != amqp.ResourceLocked {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("somebody else is making topics: %w", ctx.Err())
		case <-time.After(backoff.After(1, 20*time.Millisecond, 50*time.Millisecond)):
		}
	}
}

// MakeTopics makes those of topics that do not exist. With partitions 0 a topic gets 8.
func (b *Broker) MakeTopics(ctx context.Context, partitions int, topics ...string) error {
	if partitions == 0 {
		partitions = defaultPartitions
	}
	if partitions < 0 || partitions > maxPartitions {
		return fmt.Errorf("make topics: %d partitions: want 1 to %d", partitions, maxPartitions)
	}
	for _, name := range topics {
		if !feed.OK(name) {
			return fmt.Errorf("make topic %q: %w", name, errName)
		}
	}
	err := b.withOwn(ctx, func(conn *amqp.Connection) error {
		err := alone(ctx, conn)
		if err == nil {
			err = makeShared(ctx, conn)
		}
		if err != nil {
			return fmt.Errorf("the queue %q and the exchange %q: %w", recordName, membersName, err)
		}
		for _, name := range topics {
			if err := b.makeTopic(ctx, conn, name, partitions); err != nil {
				return fmt.Errorf("topic %q: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make topics: %w", orAway(err))
	}
	return nil
}

// makeShared makes what all topics need once; the exchange of the members says that there is a record.
func makeShared(ctx context.Context, conn *amqp.Connection) error {
	if _, err := lookDropped(ctx, conn); notFound(err) {
		err = ask(ctx, conn, declareDropped)
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	err := ask(ctx, conn, lookMembers)
	if !notFound(err) {
		return err
	}
	if _, err := write(ctx, conn, recordName, fact{ID: newID()}); err != nil {
		return err
	}
	return ask(ctx, conn, declareMembers)
}

// lookDropped is how many messages policies made the queues of partitions drop.
func lookDropped(ctx context.Context, conn *amqp.Connection) (n int, err error) {
	err = ask(ctx, conn, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(droppedName, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	return n, err
}

// declareDropped makes a quorum queue. A stream, which no policy lets expire, takes no dead letters in 3.10.
func declareDropped(ch *amqp.Channel) error {
	err := ch.ExchangeDeclare(droppedName, amqp.ExchangeFanout, true, false, false, false, nil)
	if err == nil {
		_, err = ch.QueueDeclare(droppedName, true, false, false, false, recordArgs())
	}
	if err == nil {
		err = ch.QueueBind(droppedName, "", droppedName, false, nil)
	}
	return err
}

func lookMembers(ch *amqp.Channel) error {
	return ch.ExchangeDeclarePassive(membersName, amqp.ExchangeDirect, true, false, false, false, nil)
}

func declareMembers(ch *amqp.Channel) error {
	return ch.ExchangeDeclare(membersName, amqp.ExchangeDirect, true, false, false, false, nil)
}

// makeTopic writes down how many partitions the topic has before there is an exchange to be found.
func (b *Broker) makeTopic(ctx context.Context, conn *amqp.Connection, name string, partitions int) error {
	if _, err := b.look(ctx, conn, name); err == nil || !errors.Is(err, broker.ErrNoTopic) {
		return err
	}
	if !b.opts.ByType {
		if _, err := write(ctx, conn, Record(name), fact{ID: newID(), Partitions: partitions}); err != nil {
			return err
		}
	}
	return ask(ctx, conn, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(name, amqp.ExchangeTopic, true, false, false, false, nil)
	})
}

func newID() string { return uuid7.New(time.Now()) }

// Topics tells the ids of topics, which were drawn when they were made; those that others made have an empty
// one.
func (b *Broker) Topics(ctx context.Context, names ...string) (broker.Topics, error) {
	out := broker.Topics{}
	err := b.with(ctx, func(conn *amqp.Connection) error {
		for _, name := range names {
			switch t, err := b.look(ctx, conn, name); {
			case err == nil:
				out[name] = t.id
			case kindOf(err) == perkey.Outage:
				return err
			}
		}
		return nil
	})
	return out, err
}

// Incarnation is a name that was drawn when the first topics were made: where RabbitMQ's files are lost, so
// is it.
func (b *Broker) Incarnation(ctx context.Context) (name string, err error) {
	err = b.withKept(ctx, func(conn *amqp.Connection) error {
		f, err := fetch(ctx, conn, recordName)
		name = f.ID
		return err
	})
	if notFound(err) {
		return "",
			fmt.Errorf("ask RabbitMQ for its incarnation: there is no queue %q in %q: whoever makes the topics makes it too (MakeTopics)", recordName, b.opts.VHost)
	}
	if err != nil {
		return "", fmt.Errorf("ask RabbitMQ for its incarnation: %w", orAway(err))
	}
	return name, nil
}

// Capabilities of this driver.
func Capabilities() broker.Capabilities {
	return broker.Capabilities{Partition: "a queue with one active consumer",
		Position: "the number of the delivery", Incarnation: "drawn with the first topic",
		LateGroup: "what is published from then on", Acks: "each message", LargestKiB: 16384, Counts: true,
		Checks: true}
}
