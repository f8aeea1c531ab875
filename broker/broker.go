// Package broker defines the interface between Skald and message brokers: interfaces, plain data and errors.
// Each driver has its own package: membroker, kafkabroker, natsbroker, rabbitbroker. The drivers share code
// in broker/internal. Package cloudevents maps messages to headers. Package feed receives messages for a
// subscription. Package perkey publishes messages in order per key. Package brokertest has the tests that
// every driver must pass.
//
//	your tx ─► outbox ─► relay ─► [broker] ─► inbox ─► handler's tx ─► outbox ─► …
//
// # For services
//
// A service creates a Broker with a driver, and passes it to the relay and the inbox. A service uses Envelope
// for topics of other publishers.
//
// # For drivers
//
// All other symbols are for drivers, and for wrappers of drivers.
package broker

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// Broker publishes and subscribes to messages, and inspects and changes a message broker for an operator.
// Drivers are safe for concurrent use. A wrapper should embed the Broker that it wraps, so that it keeps all
// methods.
type Broker interface {
	Publisher
	Subscriber
	Admin
	// Close closes the connections that the driver opened. Calls in progress return an error.
	Close() error
}

// Publisher publishes messages, and reports when the broker has stored them.
//
// The contract is about the order of messages with the same topic and key. If a message fails, the later
// messages of its topic and key fail too. This applies to the same call, and to every call that starts before
// Wait of the failed call has returned. So a publisher can wait for all its calls after a failure, and
// restart at the first message that is not durable. It may repeat messages, but it never reorders them.
// Messages without a key have no order.
type Publisher interface {
	// Publish sends msgs in order and returns immediately. Messages of a call follow those of the previous
	// call. The caller must not change msgs until Wait has returned. When ctx ends, messages that were not
	// sent yet may fail.
	//
	// The optional argument only has the expected ids of the topics; pass at most one. A message fails with
	// ErrRecreated if its topic has another id, or if its topic exists but is not in the map. The caller must
	// not change the map until Wait has returned.
	Publish(ctx context.Context, msgs []skald.Message, only ...Topics) Pending

	// Topics returns the ids of the topics that exist. A topic that was deleted and recreated has a new id,
	// and has lost its earlier messages. Topics omits a topic if it cannot read its id.
	Topics(ctx context.Context, names ...string) (Topics, error)

	// Incarnation returns an id of the broker's storage. If the id changes, messages that were acknowledged
	// before may be lost. The in-process broker returns a new id for each instance. Kafka returns its cluster
	// id.
	Incarnation(ctx context.Context) (string, error)
}

// Topics maps names of topics to ids.
type Topics map[string]string

// Pending is a call to Publish in progress.
type Pending interface {
	// Done returns a channel that is closed when the broker has answered the whole call. Wait then returns
	// immediately. A publisher may receive from Done in a second goroutine. It must call Wait in the
	// goroutine that calls Publish. Otherwise it may publish a message after Wait has returned and before it
	// has handled the failure, and the contract does not cover this message.
	Done() <-chan struct{}
	// Wait blocks until the broker has answered every message of the call, or ctx ends. It returns nil if all
	// messages are durable. A *PublishError lists the messages that are not durable, with their errors. Any
	// other error is an outage: the state of every message is unknown. Further calls of Wait return the same
	// result.
	Wait(ctx context.Context) error
}

// Group describes a consumer group. Subscriptions with the same Name share the messages (competing
// consumers). Each group receives every message of Topics (fan-out). A new group starts at the broker's
// oldest message, unless its driver is configured otherwise.
type Group struct {
	Name   string
	Topics []string
	// Member is the stable name of this instance, if the broker supports it (Kafka's group.instance.id). A
	// new session with the same name replaces the old session immediately. If Member is empty, each session
	// gets a new name.
	Member string
	// Owner identifies the database and schema that the group writes to. It prevents two databases from
	// sharing one group, because each would receive only a part of the messages. If the group has members of
	// another owner, a new member gets no partition: Subscribe, or a call of Receive, returns an error that
	// wraps ErrOwner. A driver cannot check this among members that share a queue or durable. If Owner is
	// empty, the driver does not check it.
	//
	// A broker with Capabilities.Owners stores the owner after the last member has left. Then Subscribe by
	// another owner fails with an *OwnerError until Adopt changes the owner. A group without an owner gets
	// the owner of its next member.
	Owner string
	// OwnerName is the readable name of the owner. An *OwnerError contains its first 200 bytes.
	OwnerName string
	// Resume returns the checkpoints of partitions from the group's database. The driver calls Resume when
	// the group assigns partitions to the member, before their first delivery. It also calls Resume without
	// partitions before the member joins. The result and the broker's state of the group determine the start
	// of each partition; see the table in docs/brokers.md. After an error the driver calls Resume again.
	// Brokers that cannot rewind do not call it. Nil means that the group has no database.
	Resume func(ctx context.Context, partitions []Partition) (Resumed, error)
}

// Resumed is the state of a group in its database.
type Resumed struct {
	// Known is true if the database has a checkpoint of any partition of the group.
	Known bool
	// Checkpoints maps the names of the requested partitions to their checkpoints. A checkpoint is the first
	// position that is not finished. Checkpoints with another Origin are omitted.
	Checkpoints map[string]int64
}

// Subscriber opens subscriptions.
type Subscriber interface {
	// Subscribe joins g. If the broker refuses a topic, the error wraps a *TopicError. It also wraps
	// ErrNoTopic if the topic does not exist.
	Subscribe(ctx context.Context, g Group) (Subscription, error)
}

// Subscription is one member of a group. Only one goroutine at a time may call its methods. Any goroutine may
// receive from the channel of Ready, and may call Alarm.
type Subscription interface {
	// Ready returns a channel. The driver sends a value to it when messages may have arrived, or when
	// partitions were gained or lost.
	Ready() <-chan struct{}
	// Receive returns messages that have arrived, at most max. It does not wait for more. An error is an
	// outage. If the error wraps a *TopicError, it may last until the caller joins again without that topic.
	Receive(ctx context.Context, max int) (Batch, error)
	// Ack acknowledges ds and all earlier deliveries of the same partitions. The broker delivers
	// unacknowledged messages again, to the next owner of the partition. Call Ack in the order of each
	// partition; there is no negative acknowledgement. Ack ignores deliveries of lost partitions. Ack may
	// return before the broker has stored the acknowledgement, but Close waits for this.
	Ack(ctx context.Context, ds []Delivery) error
	// Pause stops deliveries from partitions, and Resume restarts them. The member keeps the partitions.
	// Receive may still return messages that were fetched before the pause.
	Pause(partitions ...string)
	Resume(partitions ...string)
	// Alarm returns the reason why the broker currently accepts no messages, although it delivers messages.
	// It returns "" if the broker accepts messages, or does not report this. Any goroutine may call it.
	Alarm() string
	// Close stores acknowledgements, leaves the group, and releases its partitions immediately.
	Close(ctx context.Context) error
}

// Batch is the result of Receive. The caller first removes Lost, then adds Gained, then handles Deliveries.
type Batch struct {
	Gained, Lost []Partition
	Deliveries   []Delivery
	// Missed has the ranges of messages that retention or a purge removed before this group read them.
	// Receive reports each range once.
	Missed []Missed
}

// Missed is a range of positions that the broker removed before the group read them. From is inclusive, and
// To is exclusive.
type Missed struct {
	Partition string
	From, To  int64
	Count     int64 // number of messages, if the broker reports it
}

// Partition is the unit of ordering: a partition or a queue. All messages of a key are in one partition,
// while the topic keeps its number of partitions.
type Partition struct {
	Name string // unique in the subscription, "orders/3"
	// Clean is true for a lost partition if the member released it itself. It is always true for a gained
	// partition.
	Clean bool
	// Origin identifies the storage of a gained partition. Positions are valid only with the same Origin. A
	// recreated topic has a new Origin, and so has another broker. If Origin is empty, positions are valid
	// only until the member loses the partition.
	Origin string
	// Start is the first position of a gained partition with an Origin. The driver delivers no earlier
	// message and skips no later message. If the group has not acknowledged a message yet, Start may be lower
	// than the position of the first message. Started is true if the driver sets Start.
	Start   int64
	Started bool
	// Redelivered is the number of positions of a gained partition that the driver delivers again because the
	// group's database has no checkpoint. The group may have finished these messages.
	Redelivered int64
	// Shared is true for a gained partition that several members have at the same time, under the same name.
	// The broker delivers each message to one of the members, in no order. If a member leaves a message
	// unfinished, the broker delivers the message again to any member. A shared partition has no Origin.
	Shared bool
}

// Delivery is a message from the broker.
type Delivery struct {
	skald.Message
	Partition string
	Position  int64 // increases within the partition, such as Kafka's offset
	Attempt   int   // number of earlier deliveries; 0 if the broker does not count
	// Fault is the error of an envelope that could not be decoded, or a *TooLargeError. Then Message has the
	// topic, the key, the headers and the data unchanged, and every attribute that could be decoded.
	Fault error
}

// RouteHeader is the name of a header that drivers add to deliveries. Its value is the routing key or subject
// of a message that another publisher sent through its own topology. Drivers add it if that value differs
// from the message's type. It replaces a header of the same name.
const RouteHeader = "x-route"

// Admin inspects and changes a broker for an operator. A method returns an error that wraps ErrUnsupported if
// this kind of broker does not support it.
type Admin interface {
	TopicMaker
	TopicChecker
	Finder
	Keeper
	Examiner
	Lagger
	Adopter
}

// Adopter changes the owner of a group.
type Adopter interface {
	// Adopt changes the owner of g from the owner with the id from to g.Owner. It fails with an *OwnerError
	// if the group has a third owner. It fails if the group has members. It changes nothing if g.Owner owns
	// the group already. If the group does not exist, the error wraps ErrNoGroup.
	Adopt(ctx context.Context, g Group, from string) error
}

// TopicMaker creates topics on request. No other part of Skald creates topics.
type TopicMaker interface {
	// MakeTopics creates the missing topics, each with that number of partitions. It does not change existing
	// topics.
	MakeTopics(ctx context.Context, partitions int, topics ...string) error
}

// TopicChecker checks that topics exist and have the right settings. It is for teams that create topics with
// other tools.
type TopicChecker interface {
	// CheckTopics returns a line for each missing or unusable part of the topics, and changes nothing. A line
	// about one topic quotes the name of the topic, or the name of an object that ends in a dot and the
	// topic's name. Other lines are about all topics, such as a line about RabbitMQ's queue "skald.dropped".
	// They quote no topic, and an inbox joins in spite of them.
	CheckTopics(ctx context.Context, topics ...string) (missing []string, err error)
}

// Finder finds positions by time. On Kafka and NATS this is the time of publishing.
type Finder interface {
	// Find returns a position for each partition of topic: the first message that is not older than at. If
	// all messages are older, it returns the position after the last message.
	Find(ctx context.Context, topic string, at time.Time) ([]Place, error)
}

// Place is a position in a partition.
type Place struct {
	Partition Partition
	Position  int64
}

// Capabilities describes the differences between drivers as data. Each driver package has a function
// Capabilities. The table in docs/brokers.md has the values.
type Capabilities struct {
	Partition   string // the meaning of a partition
	Position    string // the meaning of a position
	Incarnation string // the source of Incarnation
	LateGroup   string // the first message of a new group
	Acks        string // how acknowledgements reach the broker
	LargestKiB  int    // largest data of a message with default settings; 0 if it has no fixed default
	Counts      bool   // Delivery.Attempt counts earlier deliveries
	Rewinds     bool   // the driver calls Group.Resume, and can read acknowledged messages again
	Checks      bool   // CheckTopics is supported
	Keeps       bool   // Keeps is supported
	Owners      bool   // the broker stores a group's owner, and Adopt is supported
}
