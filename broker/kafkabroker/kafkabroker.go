// Package kafkabroker is the driver for Apache Kafka and compatible brokers. It uses the client franz-go.
//
// A message is a CloudEvent in binary mode. The topic is Kafka's topic. The value is the data, and the other
// attributes are headers (record.go). The partition is the murmur2 hash of the key, as in Java's client. A
// message without a key has no Kafka key. Options can change the format and the partitions
// (options_values.go, place.go).
//
// A partition is named "orders/3", a position is an offset, and an acknowledgement is a committed offset.
// Kafka does not count deliveries, so Attempt is always 0.
//
// The code that publishes is in publish.go, round.go and hold.go. Subscriptions are in subscription.go,
// partitions.go, commit.go and begin.go. The files url.go and login_*.go parse kafka:// URLs.
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

// Options configures a Broker. The zero value works.
type Options struct {
	// Patience limits the wait for Kafka's answers in Publish. After it, the call reports an outage. Messages
	// that were sent may still become durable. Default 10 s, at least 100 ms.
	Patience time.Duration
	// Session is the time after which Kafka gives the partitions of a silent member to other members. Default
	// 6 s, which is the smallest value that Kafka accepts by default.
	Session time.Duration
	// Heartbeat is the interval of a member's heartbeats. A member learns of a rebalance by a heartbeat.
	// Default 500 ms, at most a third of Session.
	Heartbeat time.Duration
	// Commit is the time that an acknowledgement waits for others, to be committed with them. Default 100 ms.
	Commit time.Duration
	// Prefetch is the maximum number of fetched messages that wait for Receive. They also have at most about
	// 16 MiB. Default 2,000.
	Prefetch int
	// Round is the maximum number of messages that are sent before the driver waits for their answers. A
	// round also has at most about 32 MiB. Default 20,000, at most 100,000.
	Round int
	// Replicas is the replication factor of topics that MakeTopics creates. Default: the cluster's default.
	Replicas int16
	// Partitioner selects the partition of a key as another client does: "murmur2" (Java, librdkafka's
	// murmur2_random), "crc32" (librdkafka's default, consistent_random) or "fnv1a" (sarama, librdkafka's
	// fnv1a_random). Default "murmur2".
	Partitioner string
	// Partition returns the partition of a key, from 0 to n-1, in a topic with n partitions. It replaces
	// Partitioner. Equal keys must get equal partitions. Default: none.
	Partition func(topic string, key []byte, n int) int
	// Balancers lists strategies that assign partitions to members, in order of preference:
	// "cooperative-sticky", "sticky", "range" or "roundrobin". All members of a group need a common strategy.
	// Default "cooperative-sticky".
	Balancers []string
	// Start is the position at which a new group starts: "earliest", "latest", or a time in the format of RFC
	// 3339. A group reads partitions that are added later from their beginning. Default "earliest".
	Start string
	// Envelope maps attributes to the format of other programs. Default: CloudEvents.
	Envelope *broker.Envelope
	// Client has further options of the franz-go clients, such as TLS, SASL and a logger. Settings of the
	// driver take precedence.
	Client []kgo.Opt
}

// compiled has the validated Options.
type compiled struct {
	partitioner kgo.Partitioner
	place       func(topic string, key []byte, n int) int
	balancers   []kgo.GroupBalancer
	start       start
	codec       *cloudevents.Codec
}

// compile validates the options that have a text form.
func (o *Options) compile() (c compiled, err error) {
	if c.place, err = o.partitionFunc(); err != nil {
		return c, err
	}
	c.partitioner = partitionBy(c.place)
	if c.balancers, err = balancers(o.Balancers); err != nil {
		return c, err
	}
	if c.start, err = parseStart(o.Start); err != nil {
		return c, err
	}
	c.codec, err = codec(o.Envelope)
	return c, err
}

// metadataAge is the interval at which clients check whether topics have new partitions.
const metadataAge = 15 * time.Second

// requestPatience is the time after the timeout of a request until the client sends it to another broker.
const requestPatience = 5 * time.Second

// maxBytesRound is the maximum size of the messages of a round, in bytes.
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

// Broker is a connection to a Kafka cluster. It has clients that publish, and a client for each subscription.
type Broker struct {
	opts  Options
	with  compiled
	seeds []string
	cl    *kgo.Client
	adm   *kadm.Client

	publisher

	mu     sync.Mutex // guards the fields below; never held together with the publisher's mu
	subs   map[*Subscription]bool
	closed bool
	// awaited has pairs of a group and a topic: the topic did not exist when the group subscribed
	awaited map[[2]string]bool
}

var _ broker.Broker = (*Broker)(nil)

// New returns a Broker for the cluster with these seed brokers, "host:port[,host:port]". It opens no
// connection yet.
func New(seeds string, opts *Options) (*Broker, error) {
	if err := checkSeeds(seeds); err != nil {
		return nil, err
	}
	b := &Broker{opts: opts.orDefaults(), seeds: strings.Split(seeds, ","), subs: map[*Subscription]bool{},
		awaited: map[[2]string]bool{}}
	var err error
	if b.with, err = b.opts.compile(); err != nil {
		return nil, fmt.Errorf("create Kafka client: %w", err)
	}
	b.publisher.init(b.opts, b.with)
	cl, err := kgo.NewClient(b.clientOptions(kgo.WithHooks(&b.line))...)
	if err != nil {
		return nil, fmt.Errorf("create Kafka client: %w", err)
	}
	b.cl, b.adm = cl, kadm.NewClient(cl)
	b.publisher.start(cl, b.dial)
	return b, nil
}

// clientOptions returns the options that every client of b has, followed by the options extra.
func (b *Broker) clientOptions(extra ...kgo.Opt) []kgo.Opt {
	out := append([]kgo.Opt{kgo.ClientID("skald"), kgo.RetryBackoffFn(backoff.Soon),
		kgo.MetadataMaxAge(metadataAge), kgo.RequestTimeoutOverhead(requestPatience)}, b.opts.Client...)
	out = append(out,
		kgo.SeedBrokers(b.seeds...),
		kgo.MetadataMinAge(100*time.Millisecond), // a moved leader is found soon
		kgo.DialTimeout(5*time.Second),
	)
	return append(out, extra...)
}

// Incarnation returns the ID of the cluster. It sends a request each time, because a cached answer would hide
// an outage.
func (b *Broker) Incarnation(ctx context.Context) (string, error) {
	ask := kmsg.NewPtrMetadataRequest()
	ask.Topics = []kmsg.MetadataRequestTopic{}
	md, err := within(ctx, func() (*kmsg.MetadataResponse, error) { return ask.RequestWith(ctx, b.cl) })
	if err != nil {
		return "", fmt.Errorf("read the cluster id: %w", orUnavailable(err))
	}
	if md.ClusterID == nil || *md.ClusterID == "" {
		return "", errors.New("read the cluster id: Kafka has none")
	}
	return *md.ClusterID, nil
}

// MakeTopics creates missing topics. If partitions is 0, the cluster's default applies.
func (b *Broker) MakeTopics(ctx context.Context, partitions int, topics ...string) error {
	n := int32(partitions)
	if partitions <= 0 {
		n = -1
	}
	for _, t := range topics {
		if !feed.OK(t) {
			return fmt.Errorf("create topic %q: a name has 1 to 249 characters of A-Z a-z 0-9 . _ -", t)
		}
	}
	made, err := within(ctx, func() (kadm.CreateTopicResponses, error) {
		return b.adm.CreateTopics(ctx, n, b.opts.Replicas, nil, topics...)
	})
	if err != nil {
		return fmt.Errorf("create topics: %w",
			withRight(orUnavailable(err), "CREATE", strings.Join(topics, ", ")))
	}
	for _, t := range made.Sorted() {
		if t.Err != nil && !errors.Is(t.Err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %q: %w: %s", t.Topic,
				withRight(b.createError(t.Err), "CREATE", "it"), t.ErrMessage)
		}
	}
	return b.awaitTopics(ctx, topics)
}

// Close leaves all groups, answers unfinished calls with an outage, and closes all connections.
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

// createError returns the error for a topic that could not be created. A cluster that is starting may have
// fewer brokers than its default replication factor, so that error is an outage.
func (b *Broker) createError(err error) error {
	if b.opts.Replicas < 0 && errors.Is(err, kerr.InvalidReplicationFactor) {
		return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
	}
	return orUnavailable(err)
}
