// Package brokertest has the tests that every driver of package broker must pass. Call Run in a test of the
// driver:
//
//	func TestBroker(t *testing.T) {
//		brokertest.Run(t, func(t *testing.T) brokertest.Harness { … })
//	}
package brokertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/seeded"
)

// Broker is the interface under test.
type Broker = broker.Broker

// Harness gives a test access to a broker.
type Harness struct {
	// Open creates another client of the broker. The suite closes it.
	Open func(t *testing.T) Broker
	// Lasting creates a client for tests that must not depend on the session timeout. Its members stay in
	// their group for four minutes without a heartbeat, longer than a test waits. It waits as long for the
	// broker's answers, so that a slow machine causes no outage. Nil means that Open is used.
	Lasting func(t *testing.T) Broker
	// Frugal creates a client whose members prefetch about Holds messages. Held returns the number of
	// messages that a member has prefetched. Nil means that the driver does not prefetch.
	Frugal         func(t *testing.T) Broker
	Unacknowledged func(s broker.Subscription) int
	// Limit makes the broker refuse messages of topic that are larger than a number of bytes.
	Limit func(t *testing.T, topic string, bytes int)
	// Keep sets the retention of topic. Nil means that the driver does not support Keeps.
	Keep func(t *testing.T, topic string, d time.Duration)
	// Purge removes the first n messages of topic, as retention would. Nil means that the broker never
	// removes unread messages.
	Purge func(t *testing.T, topic string, n int)
	// Fill makes topic full, or nearly full, until drain is called and its messages are acknowledged. Nil
	// means that topics of this broker are never full.
	Fill func(t *testing.T, topic string) (drain func())
	// Disturb makes some publishes fail until stop is called. Some of these messages are stored although the
	// publish fails. Nil means that the broker cannot be disturbed.
	Disturb func(t *testing.T) (stop func())
	// Foreign writes a record as a producer without Skald would. Nil means that the driver has no wire
	// format.
	Foreign func(t *testing.T, topic string, r Record)
	// Mapped creates a client with this envelope. Nil means that the driver has no wire format.
	Mapped func(t *testing.T, e *broker.Envelope) Broker
	// Prefix is the beginning of the names of CloudEvents attributes in headers. Default "ce_".
	Prefix string
	// ByName is true if the wire format does not keep the order of headers with different names. They then
	// arrive sorted by name.
	ByName bool
	// LastHeader is true if the wire format keeps only the last header of each name.
	LastHeader bool
	// Kill ends a member as a crash would: the member stores nothing and does not release its partitions. Nil
	// means that members cannot be killed.
	Kill func(t *testing.T, s broker.Subscription)
	// Remove deletes a topic. Nil means that the broker may accept messages under the old id of a topic that
	// was recreated.
	Remove func(t *testing.T, topic string)
	// Drop deletes a topic. Messages that are published meanwhile may be lost. Default: Remove.
	Drop func(t *testing.T, topic string)
	// Counts is true if the broker counts deliveries, so that Attempt is above 0 for a message that is
	// delivered again.
	Counts bool
	// Forward is true if the broker cannot rewind. Then a group receives only messages that are published
	// after its first member joined. The driver refuses messages that no group would receive. Positions are
	// valid only for one owner of a partition.
	Forward bool
	// Capabilities returns the capabilities of the driver. Nil means that they are not tested.
	Capabilities func() broker.Capabilities
	// Via creates a client that connects only with dial, through a Proxy, and reconnects quickly. Nil means
	// that the driver makes no connections.
	Via func(t *testing.T, dial func(ctx context.Context, network, address string) (net.Conn, error)) Broker
	// Steps is the number of steps at which the tests cause each fault. Default 4.
	Steps int
	// Messages is the number of messages in load tests. Default 2,000.
	Messages int
}

// Record is a message in the wire format.
type Record struct {
	Key, Data []byte
	Headers   []skald.Header
}

// Holds is the approximate prefetch of members of Harness.Frugal. They never prefetch more than twice this
// number.
const Holds = 50

// disturbing is the name of the test that does not run in parallel, because Harness.Disturb may fail the
// publishes of every client.
const disturbing = "Contract/FailuresAmongPipelinedCalls"

// patience returns the time after which a waiting test fails. It is short in runs that look for seeded bugs.
func patience() time.Duration {
	if seeded.Bug() != "" {
		return 15 * time.Second
	}
	return 4 * time.Minute
}

// Run runs all tests, each with its own harness. Harnesses may share a broker, because each test uses unique
// topics and groups. The tests run in parallel, because they mostly wait.
func Run(t *testing.T, harness func(t *testing.T) Harness) {
	for _, c := range contract() {
		t.Run(c.name, func(t *testing.T) {
			if c.name != disturbing {
				t.Parallel()
			}
			c.test(t, newSuite(t, harness(t)))
		})
	}
}

type promise struct {
	name string
	test func(*testing.T, *suite)
}

func contract() []promise {
	return []promise{
		{"Messages/EveryFieldArrives", testFields},
		{"Messages/NilIsNotEmpty", testNil},
		{"Messages/NamesOfHeaders", testNames},
		{"Messages/Sizes", testSizes},
		{"Messages/AnyByte", testAnyByte},
		{"Messages/EveryLegalHeader", testHeaders},
		{"Messages/Foreign", testForeign},
		{"Messages/BrokenEnvelope", testBrokenEnvelope},
		{"Envelope/Mapped", testEnvelope},
		{"Envelope/Foreign", testEnvelopeOfOthers},
		{"Envelope/TypeIsTopic", testTypeIsTopic},
		{"Topics/Missing", testMissingTopic},
		{"Topics/MadeOnlyOnce", testMakeTopics},
		{"Topics/Checked", testCheckTopics},
		{"Topics/Kept", testKept},
		{"Topics/Lag", testLag},
		{"Topics/Only", testOnly},
		{"Topics/Recreated", testRecreated},
		{"Topics/MadeConcurrently", testMadeConcurrently},
		{"Topics/NamesToEncode", testEncodedNames},
		{"Topics/SubscribeToMissing", testSubscribeToMissing},
		{"Order/KeyAndPartition", testOrder},
		{"Order/PipelinedCalls", testPipelined},
		{"Order/WithoutKeySpreads", testWithoutKey},
		{"Groups/CompeteAndFanOut", testCompete},
		{"Groups/LateGroup", testLateGroup},
		{"Groups/AnotherOwner", testAnotherOwner},
		{"Groups/ManyTopics", testManyTopics},
		{"Groups/HundredTopics", testHundredTopics},
		{"Groups/SlowConsumer", testSlowConsumer},
		{"Groups/ReadySignalsMessages", testReady},
		{"Groups/RebalanceUnderLoad", testRebalance},
		{"Groups/CloseHandsOverImmediately", testHandOver},
		{"Groups/KilledMember", testKill},
		{"Groups/NewSessionOfAMember", testNewSession},
		{"Ack/PrefixIsNotRedelivered", testAckPrefix},
		{"Ack/InterleavedPartitions", testAckInterleaved},
		{"Ack/LostPartitionIsIgnored", testAckLost},
		{"Pause/StopsOnlyItsPartition", testPause},
		{"Pause/EndsWithThePartition", testPauseEnds},
		{"Resume/TableOfBeginnings", testBegin},
		{"Resume/FromTheCheckpoint", testResume},
		{"Resume/OriginOfARecreatedTopic", testOrigin},
		{"Resume/TopicRecreatedUnderAMember", testRecreatedUnderAMember},
		{"Resume/ReportsMissedMessages", testRemovedUnread},
		{"Resume/ReportsTheStart", testStart},
		{"Resume/FindsATime", testFind},
		{"Life/Capabilities", testCapabilities},
		{"Life/Incarnation", testIncarnation},
		{"Life/Close", testClose},
		{"Life/CloseUnderLoad", testCloseUnderLoad},
		{"Life/ConnectionLostAtEveryStep", testLossAtEveryStep},
		{"Life/EndedContext", testEndedContext},
		{"Contract/RefusedAlone", testRefused},
		{"Contract/HeldBackUntilWait", testHeldBack},
		{"Contract/RefusalsAmongPipelinedCalls", testRefusals},
		{disturbing, testFailures},
		{"Contract/FullTopicFailsAlone", testFull},
	}
}

// suite is the state of one test: its harness, and the prefix of the names of its topics and groups.
type suite struct {
	Harness
	id string
}

func newSuite(t *testing.T, h Harness) *suite {
	if h.Messages == 0 {
		h.Messages = 2000
	}
	if h.Steps == 0 {
		h.Steps = 4
	}
	if h.Prefix == "" {
		h.Prefix = "ce_"
	}
	if h.Drop == nil {
		h.Drop = h.Remove
	}
	if h.Lasting == nil {
		h.Lasting = h.Open
	}
	id := strings.ToLower(strings.NewReplacer("/", ".", "#", "-").Replace(t.Name()))
	return &suite{Harness: h, id: fmt.Sprintf("%s.%x", id[max(0, len(id)-60):], time.Now().UnixNano())}
}

// open creates a client and closes it when the test ends.
func (s *suite) open(t *testing.T) Broker {
	t.Helper()
	b := s.Open(t)
	t.Cleanup(func() { b.Close() })
	return b
}

func (s *suite) lasting(t *testing.T) Broker {
	t.Helper()
	b := s.Lasting(t)
	t.Cleanup(func() { b.Close() })
	return b
}

// topic creates a topic with a unique name. The groups will receive messages that are published from then on.
func (s *suite) topic(t *testing.T, b Broker, name string, partitions int, groups ...string) string {
	t.Helper()
	name = s.id + "." + name
	must(t, "make topic", b.MakeTopics(t.Context(), partitions, name))
	for _, g := range groups {
		s.begin(t, b, g, name)
	}
	return name
}

// begin makes a group receive messages from now on: it joins and leaves the group. It does nothing if groups
// start at the oldest message.
func (s *suite) begin(t *testing.T, b Broker, group, topic string) {
	t.Helper()
	if s.Forward {
		s.join(t, b, group, topic).close(t)
	}
}

func (s *suite) join(t *testing.T, b Broker, group string, topics ...string) *member {
	t.Helper()
	return s.joinAs(t, b, group, "", topics...)
}

func (s *suite) joinAs(t *testing.T, b Broker, group, name string, topics ...string) *member {
	t.Helper()
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: s.id + "." + group, Topics: topics, Member: name})
	must(t, "subscribe", err)
	return &member{Subscription: sub, partitions: map[string]bool{}, last: map[string]int64{}}
}

// member is a subscription, with the state that it has reported.
type member struct {
	broker.Subscription
	partitions map[string]bool
	lost       []broker.Partition
	last       map[string]int64 // the last position by partition, since it was gained
}

// receive receives a batch, and checks the promises of broker.Batch.
func (m *member) receive(t *testing.T, most int) []broker.Delivery {
	t.Helper()
	b, err := m.Receive(t.Context(), most)
	must(t, "receive", err)
	if len(b.Deliveries) > most {
		t.Fatalf("received %d, asked for at most %d", len(b.Deliveries), most)
	}
	for _, l := range b.Lost {
		if !m.partitions[l.Name] {
			t.Fatalf("lost partition %s that was not gained", l.Name)
		}
		delete(m.partitions, l.Name)
		delete(m.last, l.Name)
	}
	m.lost = append(m.lost, b.Lost...)
	for _, l := range b.Gained {
		if m.partitions[l.Name] || !l.Clean {
			t.Fatalf("gained partition %+v, had it: %v", l, m.partitions[l.Name])
		}
		m.partitions[l.Name] = true
	}
	for _, d := range b.Deliveries {
		last, some := m.last[d.Partition]
		if !m.partitions[d.Partition] || some && d.Position <= last {
			t.Fatalf("a delivery of partition %s (owned: %v) at %d behind %d", d.Partition,
				m.partitions[d.Partition], d.Position, last)
		}
		m.last[d.Partition] = d.Position
	}
	return b.Deliveries
}

// receiveUntil receives until the function done returns true. It waits only for Ready.
func (m *member) receiveUntil(t *testing.T, what string, done func([]broker.Delivery) bool) {
	t.Helper()
	deadline := time.After(patience())
	for !done(m.receive(t, 500)) {
		select {
		case <-m.Ready():
		case <-deadline:
			t.Fatalf("%s did not come; partitions %v", what, m.partitions)
		}
	}
}

// take receives exactly n messages.
func (m *member) take(t *testing.T, n int) (out []broker.Delivery) {
	t.Helper()
	m.receiveUntil(t, fmt.Sprintf("%d messages", n), func(ds []broker.Delivery) bool {
		out = append(out, ds...)
		return len(out) >= n
	})
	if len(out) != n {
		t.Fatalf("received %d messages, want %d: %v", len(out), n, ids(out))
	}
	return out
}

// owns receives until the member has n partitions. It returns the messages that arrive meanwhile.
func (m *member) owns(t *testing.T, n int) (out []broker.Delivery) {
	t.Helper()
	m.receiveUntil(t, fmt.Sprintf("ownership of %d partitions", n), func(ds []broker.Delivery) bool {
		out = append(out, ds...)
		return len(m.partitions) == n
	})
	return out
}

// settle receives with all members until member i has want[i] partitions, for each i.
func settle(t *testing.T, members []*member, want ...int) (out []broker.Delivery) {
	t.Helper()
	deadline := time.Now().Add(patience())
	for {
		even := true
		for i, m := range members {
			out = append(out, m.receive(t, 500)...)
			even = even && len(m.partitions) == want[i]
		}
		if even {
			return out
		}
		pause(t, deadline, "the partitions did not settle")
	}
}

// pause sleeps briefly between two checks. It fails the test after deadline.
func pause(t *testing.T, deadline time.Time, what string) {
	t.Helper()
	if time.Now().After(deadline) {
		t.Fatal(what)
	}
	<-time.After(2 * time.Millisecond)
}

func (m *member) ack(t *testing.T, ds ...broker.Delivery) {
	t.Helper()
	must(t, "ack", m.Ack(t.Context(), ds))
}

func (m *member) close(t *testing.T) {
	t.Helper()
	must(t, "close", m.Close(t.Context()))
}

func publish(t *testing.T, b Broker, msgs ...skald.Message) {
	t.Helper()
	must(t, "publish", b.Publish(t.Context(), msgs).Wait(t.Context()))
}

func ids(ds []broker.Delivery) []string {
	out := make([]string, len(ds))
	for i, d := range ds {
		out[i] = d.ID
	}
	return out
}

func must(t *testing.T, act string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", act, err)
	}
}

func asPublishError(t *testing.T, err error) *broker.PublishError {
	t.Helper()
	var pe *broker.PublishError
	if !errors.As(err, &pe) {
		t.Fatalf("got %v, want a *broker.PublishError", err)
	}
	return pe
}
