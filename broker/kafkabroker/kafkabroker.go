// Package kafkabroker speaks to Apache Kafka (and what speaks its protocol) by franz-go.
//
// A message travels as CloudEvents in binary mode: its topic verbatim, the partition by murmur2 of the key as
// Java's client has it, no key as no Kafka key, the value the payload, everything else in headers
// (package record), unless Options say otherwise (habits.go). url.go and package login read kafka://
// URLs. Publishing: publish.go, round.go, hold.go; subscriptions: subscription.go, partitions.go, commit.go,
// begin.go. A partition is a partition, "orders/3"; a position is an offset; an acknowledgement is a
// committed offset. Kafka does not count deliveries: Attempt is always 0.
package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/broker/internal/feed"
	"github.com/skald-go/skald/internal/backoff"
)

// Options of a Broker. The zero value is fine.
type Options struct {
	// Patience is how long a call to Publish waits for Kafka before it is answered as an outage. What was
	// sent by then may still become durable later. Default 10 s, at least 100 ms.
	Patience time.Duration
	// Session is how long a member of a group may be silent before its partitions go to others. Default 6 s,
	// which is also the least that Kafka allows unless told otherwise.
	Session time.Duration
	// Heartbeat is how often a member says that it lives, and hears that partitions move: a hand-over takes
	// about as long. Default 500 ms, at most a third of Session.
	Heartbeat time.Duration
	// Commit is how long an acknowledgement may wait to be committed with others. Default 100 ms.
	Commit time.Duration
	// Prefetch is how many messages a subscription holds ready, at most about 16 MiB of them. Default 2,000.
	Prefetch int
	// Round is how many messages are handed to Kafka before the answers to all of them are awaited. Default
	// 20,000, at most 100,000, and at most about 32 MiB of them.
	Round int
	// Replicas is the replication factor of topics that MakeTopics makes. Default: the cluster's.
	Replicas int16
	// Partitioner is the client whose places of keys are kept: "murmur2" (Java, librdkafka's murmur2_random),
	// "crc32" (librdkafka's default, consistent_random) or "fnv1a" (sarama, librdkafka's fnv1a_random).
	// Default "murmur2".
	Partitioner string
	// Partition places messages with a key among the n partitions of a topic instead. Equal keys need equal
	// places. Default: none.
	Partition func(topic string, key []byte, n int) int
	// Balancers are how a group shares its partitions, the preferred first: "cooperative-sticky", "sticky",
	// "range" or "roundrobin". All members of a group need one in common. Default "cooperative-sticky".
	Balancers []string
	// Start is where a group begins in a topic of which it has committed nothing: "earliest", "latest", or a
	// time as in RFC 3339. Partitions that are added later are read from their beginning. Default "earliest".
	Start string
	// Envelope maps attributes to what others write and read. Default: CloudEvents.
	Envelope *broker.Envelope
	// Client are further options of the franz-go clients: TLS, SASL, a logger. What the driver sets itself
	// wins.
	Client []kgo.Opt
}

// compiled is what Options say, ready for use.
type compiled struct {
	partitioner kgo.Partitioner
	place       func(topic string, key []byte, n int) int
	balancers   []kgo.GroupBalancer
	start       start
	codec       *cloudevents.Codec
}

func (o *Options) compile() (c compiled, err error) {
	if c.place, err = o.place(); err != nil {
		return c, err
	}
	c.partitioner = by(c.place)
	if c.balancers, err = balancers(o.Balancers); err != nil {
		return c, err
	}
	if c.start, err = parseStart(o.Start); err != nil {
		return c, err
	}
	c.codec, err = codec(o.Envelope)
	return c, err
}

// metadataAge is how often clients look whether topics have grown.
const metadataAge = 15 * time.Second

// requestPatience is how long an answer may take, beyond what the request itself asks for, before another
// broker is asked.
const requestPatience = 5 * time.Second

const maxBytesRound = 32 << 20

func (o *Options) orDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.Patience = max(or(out.Patience, 10*time.Second), 100*time.Millisecond)
	out.Session = or(out.Session, 6*time.Second)
	out.Heartbeat = min(or(out.Heartbeat, 500*time.Millisecond), out.Session/3)
	out.Commit = or(out.Commit, 100*time.Millisecond)
	out.Prefetch = or(out.Prefetch, 2000)
	out.Round = min(or(out.Round, 20_000), 100_000)
	out.Replicas = or(out.Replicas, -1)
	return out
}

func or[T int | int16 | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Broker is one client of a Kafka cluster: one producer, and a consumer per subscription.
type Broker struct {
	opts  Options
	with  compiled
	seeds []string
	cl    *kgo.Client
	adm   *kadm.Client

	publisher

	mu     sync.Mutex // of what follows; never held together with the publisher's
	subs   map[*Subscription]bool
	closed bool
	// awaited are groups with the topics that did not exist when they subscribed
	awaited map[[2]string]bool
}

var _ broker.Broker = (*Broker)(nil)

// New makes a client of the cluster that seeds, "host:port[,host:port]", belong to. It does not connect yet.
func New(seeds string, opts *Options) (*Broker, error) {
	if err := checkSeeds(seeds); err != nil {
		return nil, err
	}
	b := &Broker{opts: opts.orDefaults(), seeds: strings.Split(seeds, ","), subs: map[*Subscription]bool{},
		awaited: map[[2]string]bool{}}
	var err error
	if b.with, err = b.opts.compile(); err != nil {
		return nil, fmt.Errorf("make Kafka client: %w", err)
	}
	b.publisher.init(b.opts, b.with)
	cl, err := kgo.NewClient(b.client(kgo.WithHooks(&b.line))...)
	if err != nil {
		return nil, fmt.Errorf("make Kafka client: %w", err)
	}
	b.cl, b.adm = cl, kadm.NewClient(cl)
	b.publisher.start(cl, b.dial)
	return b, nil
}

// client are the options of every client of this broker.
func (b *Broker) client(more ...kgo.Opt) []kgo.Opt {
	out := append([]kgo.Opt{kgo.ClientID("skald"), kgo.RetryBackoffFn(backoff.Soon),
		kgo.MetadataMaxAge(metadataAge), kgo.RequestTimeoutOverhead(requestPatience)}, b.opts.Client...)
	out = append(out,
		kgo.SeedBrokers(b.seeds...),
		kgo.MetadataMinAge(100*time.Millisecond), // a moved leader is found soon
		kgo.DialTimeout(5*time.Second),
	)
	return append(out, more...)
}

// Incarnation returns the cluster's id. It asks Kafka each time: a cached answer would hide an outage.
func (b *Broker) Incarnation(ctx context.Context) (string, error) {
	ask := kmsg.NewPtrMetadataRequest()
	ask.Topics = []kmsg.MetadataRequestTopic{}
	md, err := ask.RequestWith(ctx, b.cl)
	if err != nil {
		return "", fmt.Errorf("ask Kafka for its cluster id: %w", orAway(err))
	}
	if md.ClusterID == nil || *md.ClusterID == "" {
		return "", errors.New("ask Kafka for its cluster id: it has none")
	}
	return *md.ClusterID, nil
}

// MakeTopics makes those of topics that do not exist. With partitions 0 the cluster decides how many they
// get.
func (b *Broker) MakeTopics(ctx context.Context, partitions int, topics ...string) error {
	n := int32(partitions)
	if partitions <= 0 {
		n = -1
	}
	for _, t := range topics {
		if !feed.OK(t) {
			return fmt.Errorf("make topic %q: a name is 1 to 249 of A-Z a-z 0-9 . _ -", t)
		}
	}
	made, err := b.adm.CreateTopics(ctx, n, b.opts.Replicas, nil, topics...)
	if err != nil {
		return fmt.Errorf("make topics: %w",
			lacking(orAway(err), "CREATE", strings.Join(topics, ", ")))
	}
	for _, t := range made.Sorted() {
		if t.Err != nil && !errors.Is(t.Err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("make topic %q: %w: %s", t.Topic,
				lacking(b.unmade(t.Err), "CREATE", "it"), t.ErrMessage)
		}
	}
	return b.awaitTopics(ctx, topics)
}

// Close leaves all groups, answers what is under way with an outage and closes all connections.
func (b *Broker) Close() error {
	b.mu.Lock()
	subs := b.subs
	b.subs, b.closed = nil, true
	b.mu.Unlock()
	var wg sync.WaitGroup
	for s := range subs {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), b.opts.Session)
			defer cancel()
			s.end(ctx, broker.ErrClosed)
		})
	}
	wg.Wait()
	b.publisher.stop()
	b.cl.Close()
	return nil
}

// unmade says why a topic was not made. A cluster that starts has too few brokers for its own replication
// factor.
func (b *Broker) unmade(err error) error {
	if b.opts.Replicas < 0 && errors.Is(err, kerr.InvalidReplicationFactor) {
		return fmt.Errorf("%w: %w", broker.ErrAway, err)
	}
	return orAway(err)
}
