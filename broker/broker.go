// Package broker is the seam to what carries messages between services: interfaces, plain data and errors.
// Drivers stand beside it (membroker, kafkabroker, natsbroker, rabbitbroker). What they have in common is in
// broker/internal: cloudevents maps messages to headers, feed is the receiving side of a subscription, perkey
// publishes in order per key. brokertest holds what every driver promises.
//
//	your tx ─► outbox ─► relay ─► [broker] ─► inbox ─► handler's tx ─► outbox ─► …
//
// # For services
//
// A service needs Broker, to pass one on, and Envelope, for topics of other publishers.
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

// Broker publishes and subscribes, and answers what an operator asks. Drivers are safe for concurrent use.
// A wrapper embeds the Broker that it stands around, and so loses nothing of what that can do.
type Broker interface {
	Publisher
	Subscriber
	Admin
	// Close gives up what the driver opened. Calls under way end with an error.
	Close() error
}

// Publisher makes messages durable at the broker.
//
// The publish contract: if a message does not become durable, then no message of the same topic and key that
// was handed over behind it becomes durable, neither in the same call nor in any later call made before Wait
// of the failed call has returned. So a caller that waits, after a failure, until all its calls have been
// answered, and then starts again at the first message that is not durable, can repeat but never overtake.
// Messages without a key have no successors.
type Publisher interface {
	// Publish hands msgs over, in order, and returns at once: what is published by call k+1 follows what was
	// published by call k. The caller leaves msgs alone until Wait has returned. When ctx ends, what was not
	// yet handed to the broker may be given up.
	//
	// Only, of which there is one at most, says which topics are meant, by their ids: a message to a topic
	// that has another id, or none in there though it exists, is not published and fails with ErrRecreated.
	// The caller leaves it alone, too.
	Publish(ctx context.Context, msgs []skald.Message, only ...Topics) Pending

	// Topics tells the ids of those of the topics that are there: one that was deleted and made anew under
	// its name has another id, and nothing of what was acknowledged before. Those that cannot be looked up
	// are left out.
	Topics(ctx context.Context, names ...string) (Topics, error)

	// Incarnation names the broker's life: what was acknowledged under another name may no longer exist
	// there. The in-process broker has a new one each time it is made; Kafka's is its cluster id.
	Incarnation(ctx context.Context) (string, error)
}

// Topics are ids of topics, by their names.
type Topics map[string]string

// Pending is a call to Publish under way.
type Pending interface {
	// Done is closed once the call is answered: then Wait returns at once. Whoever hands over from one
	// goroutine and hears of answers in another waits for Done there, and calls Wait where it hands over:
	// what is handed over behind a failure after Wait, but before it was heard of, is not held back by the
	// contract.
	Done() <-chan struct{}
	// Wait blocks until every message of the call is answered, or ctx ends. Nil: all are durable.
	// A *PublishError says which are not, and why. Any other error is an outage: nothing is known of any.
	// Wait may be called more than once and gives the same answer.
	Wait(ctx context.Context) error
}

// Group is who listens to what: subscriptions of equal Name share the work (competing consumers); each name
// sees every message of Topics (fan-out). A group that is new starts at the oldest message that the
// broker has, unless its driver was told otherwise.
type Group struct {
	Name   string
	Topics []string
	// Member is the stable name of this instance, where the broker has such a thing (Kafka's
	// group.instance.id): a new session of the same name takes over at once. Empty: a new name each time.
	Member string
	// Owner names the database and the schema that the group's effects go to. A member of another owner would
	// take messages away from them. So one that meets members of another owner gets no partition while those
	// are there: Subscribe, or Receive now and then, answers with an error that wraps ErrOwner. Of a queue or
	// durable that members share nobody is told who they are. Empty: it is not told.
	//
	// Where the broker has room (Capabilities.Owners) it keeps the owner when the last member has left:
	// Subscribe refuses another one with an *OwnerError until Adopt. A group without an owner gets that of
	// its next member.
	Owner string
	// OwnerName is the owner for people: an *OwnerError has its first 200 bytes.
	OwnerName string
	// Resume is asked when partitions are assigned, before the driver delivers anything of them, and without
	// partitions before the member joins. What it answers decides, with what the broker has of the group,
	// where partitions begin: docs/brokers.md has the table. Partitions of a broker that cannot be rewound
	// begin where they would. After an error the driver asks again. Nil: the group has no database.
	Resume func(ctx context.Context, partitions []Partition) (Resumed, error)
}

// Resumed is what the database of a group has of it.
type Resumed struct {
	// Known: it has a checkpoint of some partition.
	Known bool
	// At are the checkpoints of the partitions of the question, by name: the first position that is not
	// finished. A checkpoint of a partition with another Origin is left out.
	At map[string]int64
}

// Subscriber opens subscriptions.
type Subscriber interface {
	// Subscribe joins g. A topic that the broker refuses is an error that wraps a *TopicError, and ErrNoTopic
	// if it does not exist yet.
	Subscribe(ctx context.Context, g Group) (Subscription, error)
}

// Subscription is one member of a group. Its methods may be called from one goroutine at a time; Ready's
// channel may be read from any.
type Subscription interface {
	// Ready has a value when something may have come: messages, or partitions gained or lost.
	Ready() <-chan struct{}
	// Receive returns what has arrived, at most max deliveries; it never waits for more. An error is an
	// outage. An error that wraps a *TopicError may last until the caller joins again without that topic.
	Receive(ctx context.Context, max int) (Batch, error)
	// Ack says that these, and all that came before each of them in its partition, are finished: they do not
	// come again. What is not acknowledged comes again, to whoever owns the partition then. Call it in the
	// order of the partition. There is no Nack. Deliveries of partitions that were lost meanwhile are
	// ignored. Ack may answer before the broker has stored it; Close does not.
	Ack(ctx context.Context, ds []Delivery) error
	// Pause stops deliveries from partitions, and Resume lets them flow again, while the partitions stay
	// owned. Deliveries that were fetched before may still come once; what is published later does not come.
	Pause(partitions ...string)
	Resume(partitions ...string)
	// Alarm is why the broker takes nothing for the moment, though it goes on delivering; "": it takes what
	// it is given, or does not tell. It may be called from any goroutine.
	Alarm() string
	// Close stores acknowledgements, leaves the group and hands the partitions over at once.
	Close(ctx context.Context) error
}

// Batch is what Receive returns: first forget Lost, then take up Gained, then handle Deliveries.
type Batch struct {
	Gained, Lost []Partition
	Deliveries   []Delivery
	// Missed are messages that the broker removed before this group had them: by its retention, by a purge.
	// They are told once.
	Missed []Missed
}

// Missed are messages of a partition, from one position on and below another, that were removed unread.
type Missed struct {
	Partition string
	From, To  int64
	Count     int64 // how many, as far as the broker tells
}

// Partition is what order holds within: a partition, a queue. Deliveries of one key always come by one
// partition as long as the topic keeps its number of partitions.
type Partition struct {
	Name string // unique in the subscription, "orders/3"
	// Clean, for a lost partition: it was handed over in peace. For a gained one it is always true.
	Clean bool
	// Origin, for a gained partition, names what its positions speak of: those of a topic that was made anew
	// under its name, or of another broker, have another one. Empty: positions mean nothing beyond this
	// ownership.
	Origin string
	// Start, for a gained partition with an Origin, is where it begins: no message of before comes, and none
	// from there on is passed over. Where the group has acknowledged nothing yet, it may be lower than the
	// first message. Started: the driver knows it.
	Start   int64
	Started bool
	// Again, for a gained partition, is how many of its messages come again although the group may have
	// finished them: its database has no checkpoint of them. It counts positions.
	Again int64
	// Shared, for a gained partition: other members have it at the same time under the same name, and each
	// message goes to one of them, in no order. The broker hands out what a member left unfinished by itself,
	// so nobody owns such a partition. It has no Origin.
	Shared bool
}

// Delivery is a message that arrived.
type Delivery struct {
	skald.Message
	Partition string
	Position  int64 // in the partition; grows; Kafka's offset
	Attempt   int   // how often the broker delivered it before; 0 also where the broker does not count
	// Fault is set when the envelope could not be read. Then Message holds the topic, the key, the headers
	// and the data as they came, and what else could be read.
	Fault error
}

// RouteHeader is the header in which a driver passes on the routing key or subject of a message that
// another publisher sent through a topology of its own, where it differs from the message's type. It
// replaces a header of that name that came with the message.
const RouteHeader = "x-route"

// Admin is what a broker can be asked for besides messages. What its kind of broker cannot do is answered
// with an error that wraps ErrUnsupported.
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
	// Adopt gives a group from one owner to g.Owner. It fails with an *OwnerError if the group has a third
	// owner, and while the group has members. A group that is g.Owner's already stays as it is. A group that
	// does not exist is an error that wraps ErrNoGroup.
	Adopt(ctx context.Context, g Group, from string) error
}

// TopicMaker makes topics on request: nothing else in Skald does.
type TopicMaker interface {
	// MakeTopics makes those of topics that do not exist, with that many partitions, and leaves the others
	// alone.
	MakeTopics(ctx context.Context, partitions int, topics ...string) error
}

// TopicChecker looks whether topics are there as they need to be, for those who have them made by others.
type TopicChecker interface {
	// CheckTopics returns a line for each missing or unusable part of the topics, and changes nothing. A line
	// about one topic quotes its name, or the name of an object that ends in a dot and the topic's name. A
	// line that all topics share, such as that about the queue "skald.dropped" of RabbitMQ, quotes no topic:
	// an inbox joins its topics nevertheless.
	CheckTopics(ctx context.Context, topics ...string) (missing []string, err error)
}

// Finder finds positions by time: of a partition one behind all its messages of before that time, and not
// behind the first that has that time or a later one. Where there is none, it is behind the last. The time is
// the broker's: that of its publishing on Kafka and NATS.
type Finder interface {
	Find(ctx context.Context, topic string, at time.Time) ([]Place, error)
}

// Place is a position in a partition.
type Place struct {
	Partition Partition
	Position  int64
}

// Capabilities are what drivers differ in, as data: each has a function Capabilities. docs/brokers.md shows
// them.
type Capabilities struct {
	Partition   string // what a partition is
	Position    string // what a position is
	Incarnation string // what names the broker's life
	LateGroup   string // where a new group begins
	Acks        string // what the broker hears of an acknowledgement
	LargestKiB  int    // data of a message, as the broker is installed; 0: as it is configured
	Counts      bool   // deliveries: Attempt is more than 0 when a message comes again
	Rewinds     bool   // Group.Resume is asked, and what was acknowledged can be read again
	Checks      bool   // CheckTopics is supported
	Keeps       bool   // Keeps is supported
	Owners      bool   // a group keeps its owner, and Adopt is supported
}
