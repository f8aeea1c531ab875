// Package broker defines the interface between Skald and message brokers: interfaces, plain data and
// errors. Each driver has its own package: membroker, kafkabroker, natsbroker, rabbitbroker. They share
// code in broker/internal: cloudevents maps messages to headers, feed receives for a subscription, perkey
// publishes in order per key. brokertest is the test suite that every driver must pass.
//
//	your tx ─► outbox ─► relay ─► [broker] ─► inbox ─► handler's tx ─► outbox ─► …
//
// # For services
//
// A service uses Broker, to pass it on, and Envelope, for topics of other publishers.
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

// Broker publishes, subscribes, and answers an operator's questions. Drivers are safe for concurrent use. A
// wrapper embeds the Broker that it wraps, and so keeps all its methods.
type Broker interface {
	Publisher
	Subscriber
	Admin
	// Close closes the connections that the driver opened. Calls in progress return an error.
	Close() error
}

// Publisher makes messages durable at the broker.
//
// The publish contract: after a message fails, later messages of the same topic and key fail too. This
// holds within the call, and for every later call made before Wait of the failed call has returned. A
// publisher that waits for all its calls after a failure, and then restarts at the first message that is
// not durable, may repeat messages but never reorders them. Messages without a key have no such order.
type Publisher interface {
	// Publish sends msgs in order and returns immediately. Messages of call k+1 follow those of call k. The
	// caller must not change msgs until Wait has returned. When ctx ends, messages that were not sent yet
	// may fail.
	//
	// only, at most one, has the expected ids of topics. A message whose topic has another id fails with
	// ErrRecreated, and so does one whose existing topic is not in the map. The caller must not change the
	// map either.
	Publish(ctx context.Context, msgs []skald.Message, only ...Topics) Pending

	// Topics returns the ids of those topics that exist. A topic that was deleted and recreated has another
	// id, and none of the messages that were acknowledged before. Topics that cannot be looked up are
	// omitted.
	Topics(ctx context.Context, names ...string) (Topics, error)

	// Incarnation identifies the broker's storage. Messages that were acknowledged under another name may
	// no longer exist. The in-process broker returns a new name for each instance; Kafka returns its
	// cluster id.
	Incarnation(ctx context.Context) (string, error)
}

// Topics maps names of topics to ids.
type Topics map[string]string

// Pending is a call to Publish in progress.
type Pending interface {
	// Done is closed when the broker has answered the call: Wait then returns immediately. A publisher with
	// a second goroutine for answers waits for Done there, and calls Wait where it calls Publish. Otherwise
	// the contract does not cover a message that is published after Wait has returned but before the
	// publisher has seen the failure.
	Done() <-chan struct{}
	// Wait blocks until every message of the call is answered, or ctx ends. Nil means that all are durable.
	// A *PublishError lists the messages that are not, and why. Any other error is an outage: the state of
	// every message is unknown. Wait may be called again and returns the same answer.
	Wait(ctx context.Context) error
}

// Group names a consumer group. Subscriptions with the same Name share the work (competing consumers); each
// name receives every message of Topics (fan-out). A new group starts at the broker's oldest message,
// unless its driver is configured otherwise.
type Group struct {
	Name   string
	Topics []string
	// Member is the stable name of this instance, if the broker supports one (Kafka's group.instance.id). A
	// new session with the same name takes over immediately. Empty: each session gets a new name.
	Member string
	// Owner identifies the database and schema that the group writes to, because a member of another owner
	// would take messages away from it. A member that meets members of another owner gets no partition:
	// Subscribe, or some calls of Receive, return an error that wraps ErrOwner. Members that share a queue
	// or durable do not see each other, so this is not checked for them. Empty disables the check.
	//
	// A broker with Capabilities.Owners stores the owner after the last member has left: Subscribe by
	// another owner fails with an *OwnerError until Adopt. A group without an owner gets the owner of its
	// next member.
	Owner string
	// OwnerName is the readable name of the owner. An *OwnerError contains its first 200 bytes.
	OwnerName string
	// Resume is called when partitions are assigned, before their first delivery, and without partitions
	// before the member joins. Its result and the broker's state of the group decide where partitions
	// begin: docs/brokers.md has the table. It has no effect on brokers that cannot rewind. The driver
	// calls it again after an error. Nil: the group has no database.
	Resume func(ctx context.Context, partitions []Partition) (Resumed, error)
}

// Resumed is the state of a group in its database.
type Resumed struct {
	// Known is true if the database has a checkpoint of any partition.
	Known bool
	// Checkpoints has the checkpoint of each requested partition, by name: the first position that is not
	// finished. Checkpoints with another Origin are omitted.
	Checkpoints map[string]int64
}

// Subscriber opens subscriptions.
type Subscriber interface {
	// Subscribe joins g. If the broker refuses a topic, the error wraps a *TopicError, and ErrNoTopic if
	// the topic does not exist.
	Subscribe(ctx context.Context, g Group) (Subscription, error)
}

// Subscription is one member of a group. Only one goroutine at a time may call its methods; any goroutine
// may read Ready's channel and call Alarm.
type Subscription interface {
	// Ready receives a value when messages may have arrived, or partitions been gained or lost.
	Ready() <-chan struct{}
	// Receive returns the messages that have arrived, at most max, and never waits for more. An error is an
	// outage. An error that wraps a *TopicError may last until the caller joins again without that topic.
	Receive(ctx context.Context, max int) (Batch, error)
	// Ack acknowledges ds and all earlier deliveries of the same partitions, so that they are not
	// redelivered. Unacknowledged messages are redelivered to the next owner of the partition. Call it in
	// the order of the partition; there is no Nack. Ack ignores deliveries of lost partitions. It may
	// return before the broker has stored the acknowledgement; Close does not.
	Ack(ctx context.Context, ds []Delivery) error
	// Pause stops deliveries from partitions, and Resume restarts them; the partitions stay owned. Messages
	// that were fetched before may still arrive once. Messages that are published later do not.
	Pause(partitions ...string)
	Resume(partitions ...string)
	// Alarm returns why the broker currently accepts no messages, although it delivers; "" if it accepts
	// them or does not report this. Any goroutine may call it.
	Alarm() string
	// Close stores acknowledgements, leaves the group and releases its partitions immediately.
	Close(ctx context.Context) error
}

// Batch is the result of Receive: first remove Lost, then add Gained, then handle Deliveries.
type Batch struct {
	Gained, Lost []Partition
	Deliveries   []Delivery
	// Missed are messages that the broker removed before this group read them, by retention or a purge.
	// Each is reported once.
	Missed []Missed
}

// Missed is a range of positions, From inclusive to To exclusive, that was removed unread.
type Missed struct {
	Partition string
	From, To  int64
	Count     int64 // number of messages, if the broker reports it
}

// Partition is the unit of ordering: a partition or a queue. Deliveries of one key always arrive by one
// partition while the topic keeps its number of partitions.
type Partition struct {
	Name string // unique in the subscription, "orders/3"
	// Clean, for a lost partition, is true if the member handed it over. For a gained one it is always
	// true.
	Clean bool
	// Origin, for a gained partition, identifies the storage that its positions refer to. A recreated
	// topic, and another broker, have another Origin. Empty: positions are valid only during this
	// ownership.
	Origin string
	// Start, for a gained partition with an Origin, is where it begins: no earlier message is delivered,
	// and no later one skipped. If the group has acknowledged nothing yet, it may be lower than the first
	// message. Started is true if the driver reports it.
	Start   int64
	Started bool
	// Redelivered, for a gained partition, is the number of positions that are redelivered although the group
	// may have finished them, because its database has no checkpoint.
	Redelivered int64
	// Shared, for a gained partition, is true if other members have it at the same time under the same
	// name. Each message goes to one of them, in no order. The broker itself redelivers messages that a
	// member left unfinished, so nobody owns such a partition. It has no Origin.
	Shared bool
}

// Delivery is a message that has arrived.
type Delivery struct {
	skald.Message
	Partition string
	Position  int64 // in the partition; increasing; Kafka's offset
	Attempt   int   // number of earlier deliveries; 0 if the broker does not count
	// Fault is set if the envelope could not be decoded. Then Message has the topic, the key, the headers
	// and the data unchanged, and every attribute that could be decoded.
	Fault error
}

// RouteHeader is the header for the routing key or subject of a message that another publisher sent through
// its own topology, if it differs from the message's type. It replaces a header of the same name.
const RouteHeader = "x-route"

// Admin answers an operator's questions. A method that the kind of broker does not support returns an error
// that wraps ErrUnsupported.
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
	// Adopt changes the owner of a group from one owner to g.Owner. It fails with an *OwnerError if the
	// group has a third owner, or has members. It changes nothing if g.Owner owns the group already. If the
	// group does not exist, the error wraps ErrNoGroup.
	Adopt(ctx context.Context, g Group, from string) error
}

// TopicMaker creates topics on request. Nothing else in Skald creates topics.
type TopicMaker interface {
	// MakeTopics creates those topics that do not exist, with that many partitions, and does not change the
	// others.
	MakeTopics(ctx context.Context, partitions int, topics ...string) error
}

// TopicChecker checks that topics exist with the right settings, for teams that create topics with other
// tools.
type TopicChecker interface {
	// CheckTopics returns a line for each missing or unusable part of the topics, and changes nothing. A
	// line about one topic quotes its name, or the name of an object that ends in a dot and the topic's
	// name. A line about all topics, such as that about the queue "skald.dropped" of RabbitMQ, quotes no
	// topic and does not keep an inbox from joining.
	CheckTopics(ctx context.Context, topics ...string) (missing []string, err error)
}

// Finder finds positions by the broker's time, which is the time of publishing on Kafka and NATS. In each
// partition it returns the first position whose message is not older than at; after the last message if
// there is none.
type Finder interface {
	Find(ctx context.Context, topic string, at time.Time) ([]Place, error)
}

// Place is a position in a partition.
type Place struct {
	Partition Partition
	Position  int64
}

// Capabilities lists the differences between drivers as data: each driver has a function Capabilities.
// docs/brokers.md shows them.
type Capabilities struct {
	Partition   string // the meaning of a partition
	Position    string // the meaning of a position
	Incarnation string // the source of Incarnation
	LateGroup   string // where a new group begins
	Acks        string // how acknowledgements reach the broker
	LargestKiB  int    // data of a message, with the broker's default settings; 0: as configured
	Counts      bool   // Attempt is above 0 for a redelivered message
	Rewinds     bool   // Group.Resume is called, and acknowledged messages can be read again
	Checks      bool   // CheckTopics is supported
	Keeps       bool   // Keeps is supported
	Owners      bool   // the broker stores a group's owner, and Adopt is supported
}
