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
	recordName  = "skald"         // the record with the incarnation of this RabbitMQ
	makingName  = "skald.making"  // an exclusive queue: a lock for the creation of topics
	membersName = "skald.members" // the exchange for the hellos of members
	// the exchange and the queue for messages that a policy drops from partitions
	droppedName       = "skald.dropped"
	defaultPartitions = 8
	maxPartitions     = 256

	// deliveryLimit is a number that no message reaches. Without a limit, or with RabbitMQ 4's default of 20,
	// RabbitMQ drops or reorders messages with many redeliveries.
	deliveryLimit = 2_000_000_000
)

var (
	// ErrSettings is wrapped by errors about an existing exchange or queue that Skald cannot use.
	ErrSettings = errors.New("skald cannot keep its guarantees with these settings")

	errName = errors.New(
		"a name is 1 to 249 of A-Z a-z 0-9 . _ -, and that of a queue, group/topic/partition, at most 255")
	errNoPartitions = errors.New("it has another message")
	errMissing      = errors.New("it is missing, and this client does not declare it")
)

// topic describes an exchange that exists.
type topic struct {
	name       string
	id         string
	partitions int // 0 with Options.ByType
}

// fact is the content of a record. A record is a queue with one message, which readers put back.
type fact struct {
	ID         string `json:"id"`
	Partitions int    `json:"partitions,omitempty"`
}

// Record returns the name of the queue that stores the number of partitions of a topic.
func Record(topic string) string { return recordName + "/" + topic }

// Queue returns the name of the queue of a group's partition.
func Queue(group, topic string, partition int) string {
	return group + "/" + topic + "/" + strconv.Itoa(partition)
}

// routingKey returns PARTITION.TYPE, shortened to AMQP's limit of 255 bytes.
func routingKey(partition int, kind string) string {
	key := strconv.Itoa(partition) + "." + kind
	return key[:min(len(key), 255)]
}

// recordArgs returns the arguments of a record's queue. They prevent RabbitMQ from dropping its message.
func recordArgs() amqp.Table {
	return amqp.Table{"x-queue-type": "quorum", "x-overflow": "reject-publish",
		"x-delivery-limit": int64(deliveryLimit)}
}

// partitionArgs returns the arguments of a partition's queue. They prevent RabbitMQ from dropping or
// reordering messages. A policy overrides them, except the dead-letter exchange.
func partitionArgs() amqp.Table {
	return amqp.Table{
		"x-queue-type": "quorum", "x-single-active-consumer": true,
		"x-overflow": "reject-publish", "x-delivery-limit": int64(deliveryLimit),
		"x-dead-letter-exchange": droppedName,
	}
}

// look returns the state of a topic, or an error if the topic does not exist or is unusable.
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
			err = fmt.Errorf("the queue %q does not contain the number of partitions, so MakeTopics did not create the topic (for a topology of your own, set ByType or route=type): %w: %w", Record(name), ErrSettings, cmp.Or(err, errNoPartitions))
		}
	}
	if err != nil {
		return t, fmt.Errorf("read topic %q: %w", name, orUnavailable(err))
	}
	return t, nil
}

// recordMost limits the wait for the message of a record while other readers have it.
const recordMost = 3 * time.Second

// fetch returns the content of a record. A reader takes the message for a moment and puts it back. Other
// readers find the queue empty meanwhile, and retry.
func fetch(ctx context.Context, conn *amqp.Connection, record string) (f fact, err error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, recordMost)
	defer cancel()
	for empty := false; ; empty = true {
		found := false
		err := ask(ctx, conn, func(ch *amqp.Channel) error {
			d, ok, err := ch.Get(record, false)
			if err != nil || !ok {
				return err
			}
			found = true
			if err := json.Unmarshal(d.Body, &f); err != nil {
				return fmt.Errorf("the content of the queue %q is not Skald's: %w: %w", record,
					ErrSettings, err)
			}
			return nil
		})
		if empty && ctx.Err() != nil && whole.Err() == nil { // the record was empty during the whole wait
			return f, fmt.Errorf("the queue %q is empty: was it purged, or is there a policy with message-ttl? Delete it and the topic's exchange, and make the topic again: %w", record, ErrSettings)
		}
		if found || err != nil {
			return f, err
		}
		select {
		case <-ctx.Done():
			if whole.Err() != nil {
				return f, fmt.Errorf("the message of the queue %q is missing (did a policy with message-ttl remove it?), or another reader has it: %w", record, whole.Err())
			}
		case <-time.After(backoff.After(1, 5*time.Millisecond, 20*time.Millisecond)):
		}
	}
}

// write stores f in a record, unless the record has content, and returns the content. The caller ensures that
// there is no other writer. Readers wait while the record is empty.
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

// lockCreation waits for the exclusive right to create topics. The right ends with the connection.
func lockCreation(ctx context.Context, conn *amqp.Connection) error {
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
			return fmt.Errorf("another process is creating topics: %w", ctx.Err())
		case <-time.After(backoff.After(1, 20*time.Millisecond, 50*time.Millisecond)):
		}
	}
}

// MakeTopics creates missing topics. If partitions is 0, a topic gets 8.
func (b *Broker) MakeTopics(ctx context.Context, partitions int, topics ...string) error {
	if partitions == 0 {
		partitions = defaultPartitions
	}
	if partitions < 0 || partitions > maxPartitions {
		return fmt.Errorf("create topics: %d partitions: use 1 to %d", partitions, maxPartitions)
	}
	for _, name := range topics {
		if !feed.OK(name) {
			return fmt.Errorf("create topic %q: %w", name, errName)
		}
	}
	err := b.withOwn(ctx, func(conn *amqp.Connection) error {
		err := lockCreation(ctx, conn)
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
		return fmt.Errorf("create topics: %w", orUnavailable(err))
	}
	return nil
}

// makeShared creates the objects that all topics need. It creates the exchange for hellos last, so if that
// exchange exists, the record with the incarnation exists too.
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

// lookDropped returns the number of messages that policies dropped from the queues of partitions.
func lookDropped(ctx context.Context, conn *amqp.Connection) (n int, err error) {
	err = ask(ctx, conn, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(droppedName, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	return n, err
}

// declareDropped declares the exchange and the queue for dropped messages. The queue is a quorum queue. A
// stream would be safe from policies, but RabbitMQ 3.10 cannot dead-letter into a stream.
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

// makeTopic creates a topic. It stores the number of partitions before it declares the exchange, so that an
// existing topic always has this number.
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

// Topics returns the random IDs that MakeTopics gave to topics. With Options.ByType the ID is empty.
func (b *Broker) Topics(ctx context.Context, names ...string) (broker.Topics, error) {
	out := broker.Topics{}
	err := b.withConn(ctx, func(conn *amqp.Connection) error {
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

// Incarnation returns the random ID that MakeTopics stored with the first topics. RabbitMQ loses the ID if it
// loses its data.
func (b *Broker) Incarnation(ctx context.Context) (name string, err error) {
	err = b.withKept(ctx, func(conn *amqp.Connection) error {
		f, err := fetch(ctx, conn, recordName)
		name = f.ID
		return err
	})
	if notFound(err) {
		return "",
			fmt.Errorf("read RabbitMQ's incarnation: there is no queue %q in %q, which MakeTopics creates with the topics", recordName, b.opts.VHost)
	}
	if err != nil {
		return "", fmt.Errorf("read RabbitMQ's incarnation: %w", orUnavailable(err))
	}
	return name, nil
}

// Capabilities returns the capabilities of this driver.
func Capabilities() broker.Capabilities {
	return broker.Capabilities{Partition: "a queue with one active consumer",
		Position: "the number of the delivery", Incarnation: "drawn with the first topic",
		LateGroup: "messages published from then on", Acks: "one message", LargestKiB: 16384, Counts: true,
		Checks: true}
}
