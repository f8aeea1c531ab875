// Package broker is the seam to what carries messages between services: interfaces, plain data and errors.
// Drivers stand beside it (membroker, kafkabroker); brokertest holds what every driver promises.
//
//	your tx ─► outbox ─► relay ─► [broker] ─► inbox ─► handler's tx ─► outbox ─► …
package broker

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// A Broker publishes and subscribes. Drivers are safe for concurrent use.
type Broker interface {
	Publisher
	Subscriber
	// Close gives up what the driver opened. Calls under way end with an error.
	Close() error
}

// A Publisher makes messages durable at the broker.
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
	// Only, of which there is one at most, says which topics are meant, by their ids: a message to a topic that has another
	// id, or none in there though it exists, is not published and fails with ErrAnew. The caller leaves it alone, too.
	Publish(ctx context.Context, msgs []skald.Message, only ...Topics) Pending

	// Topics tells the ids of those of the topics that are there: one that was deleted and made anew under its name has
	// another id, and nothing of what was acknowledged before. Those that cannot be looked up are left out.
	Topics(ctx context.Context, names ...string) (Topics, error)

	// Incarnation names the broker's life: what was acknowledged under another name may no longer exist there.
	// The in-process broker has a new one each time it is made; Kafka's is its cluster id.
	Incarnation(ctx context.Context) (string, error)
}

// Topics are ids of topics, by their names.
type Topics map[string]string

// Pending is a call to Publish under way.
type Pending interface {
	// Done is closed once the call is answered: then Wait returns at once. Whoever hands over from one goroutine and
	// hears of answers in another waits for Done there, and calls Wait where it hands over: what is handed over
	// behind a failure after Wait, but before it was heard of, is not held back by the contract.
	Done() <-chan struct{}
	// Wait blocks until every message of the call is answered, or ctx ends. Nil: all are durable.
	// A *PublishError says which are not, and why. Any other error is an outage: nothing is known of any.
	// Wait may be called more than once and gives the same answer.
	Wait(ctx context.Context) error
}

// A Group is who listens to what: subscriptions of equal Name share the work (competing consumers); each name
// sees every message of Topics (fan-out). A group that is new starts at the oldest message that the
// broker has, unless its driver was told otherwise.
type Group struct {
	Name   string
	Topics []string
	// Member is the stable name of this instance, where the broker has such a thing (Kafka's group.instance.id):
	// a new life of the same name takes over at once. Empty: a new name each time.
	Member string
	// Resume is asked when lanes are assigned, before anything of them is delivered: from which position on their messages
	// are wanted, where that is earlier than what is acknowledged. Lanes that it does not name, and those of a broker that
	// cannot be rewound, begin where they would. With an error the assignment is tried again. Nil: all do.
	Resume func(ctx context.Context, lanes []Lane) (map[string]int64, error)
}

// A Subscriber opens subscriptions.
type Subscriber interface {
	// Subscribe joins g. A topic that does not exist yet is an error that wraps ErrNoTopic.
	Subscribe(ctx context.Context, g Group) (Subscription, error)
}

// A Subscription is one member of a group. Its methods may be called from one goroutine at a time; Ready's
// channel may be read from any.
type Subscription interface {
	// Ready has a value when something may have come: messages, or lanes gained or lost.
	Ready() <-chan struct{}
	// Receive returns what has arrived, at most max deliveries; it never waits for more. An error is an outage.
	Receive(ctx context.Context, max int) (Batch, error)
	// Ack says that these, and all that came before each of them in its lane, are finished: they do not come
	// again. What is not acknowledged comes again, to whoever owns the lane then. Call it in the order of the
	// lane. There is no Nack. Deliveries of lanes that were lost meanwhile are ignored.
	// Ack may answer before the broker has stored it; Close does not.
	Ack(ctx context.Context, ds []Delivery) error
	// Pause stops deliveries from lanes, and Resume lets them flow again, while the lanes stay owned.
	// Deliveries that were already fetched may still come once.
	Pause(lanes ...string)
	Resume(lanes ...string)
	// Close stores acknowledgements, leaves the group and hands the lanes over at once.
	Close(ctx context.Context) error
}

// A Batch is what Receive returns: first forget Lost, then take up Gained, then handle Deliveries.
type Batch struct {
	Gained, Lost []Lane
	Deliveries   []Delivery
}

// A Lane is what order holds within: a partition, a queue. Deliveries of one key always come by one lane
// as long as the topic keeps its number of lanes.
type Lane struct {
	Name string // unique in the subscription, "orders/3"
	// Clean, for a lost lane: it was handed over in peace. For a gained one it is always true.
	Clean bool
	// Origin, for a gained lane, names what its positions speak of: those of a topic that was made anew under its name, or of
	// another broker, have another one. Empty: positions mean nothing beyond this ownership.
	Origin string
	// Start, for a gained lane with an Origin, is where it begins: no message of before comes, and none from there on is passed over.
	// Where the group has acknowledged nothing yet, it may be lower than the first message. Started: the driver knows it.
	Start   int64
	Started bool
}

// A Delivery is a message that arrived.
type Delivery struct {
	skald.Message
	Lane     string
	Position int64 // in the lane; grows; Kafka's offset
	Attempt  int   // how often the broker delivered it before; 0 also where the broker does not count
	// Fault is set when the envelope could not be read. Then Message holds the topic, the key, the headers
	// and the data as they came, and what else could be read.
	Fault error
}

// A TopicMaker makes topics on request: nothing else in Skald does.
type TopicMaker interface {
	// MakeTopics makes those of topics that do not exist, with that many lanes, and leaves the others alone.
	MakeTopics(ctx context.Context, lanes int, topics ...string) error
}

// A TopicChecker looks whether topics are there as they need to be, for those who have them made by others.
type TopicChecker interface {
	// CheckTopics changes nothing. What is missing, or is there but cannot be used as it is, it says in a line each,
	// with the topic's name; none: all can be used.
	CheckTopics(ctx context.Context, topics ...string) (missing []string, err error)
}

// A Finder finds positions by time: of a lane one behind all its messages of before that time, and not behind the first that
// has that time or a later one. Where there is none, it is behind the last. The time is the broker's: that of its publishing on
// Kafka and NATS.
type Finder interface {
	Find(ctx context.Context, topic string, at time.Time) ([]Place, error)
}

// A Place is a position in a lane.
type Place struct {
	Lane     Lane
	Position int64
}

// Capabilities are what drivers differ in, as data: each has a function Capabilities. docs/brokers.md shows them.
type Capabilities struct {
	Lane        string // what a lane is
	Position    string // what a position is
	Incarnation string // what names the broker's life
	LateGroup   string // where a new group begins
	Acks        string // what the broker hears of an acknowledgement
	LargestKiB  int    // data of a message, as the broker is installed; 0: as it is configured
	Counts      bool   // deliveries: Attempt is more than 0 when a message comes again
	Rewinds     bool   // Group.Resume is asked, and what was acknowledged can be read again
	Checks      bool   // it is a TopicChecker
	Keeps       bool   // it is a Keeper
}
