// Package brokertest holds every driver of the broker seam to the sentences of broker/broker.go:
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

// Broker is what is tested.
type Broker = broker.Broker

// Harness is one broker under test, as one test sees it.
type Harness struct {
	// Open makes another client of the broker; the suite closes it.
	Open func(t *testing.T) Broker
	// Lasting makes a client whose members count as alive, though they are silent, for longer than a test
	// waits (four minutes), so that a hand-over that waits for their end is seen. It waits as long for the
	// answer to a message, so that a slow machine makes no outage. Nil: Open's do.
	Lasting func(t *testing.T) Broker
	// Frugal makes a client whose members hold about Holds messages that nobody has received yet, and Held
	// tells how many one holds. Nil: nothing is fetched before it is asked for.
	Frugal func(t *testing.T) Broker
	Held   func(s broker.Subscription) int
	// Limit makes the broker itself refuse messages of topic that are larger than that many bytes.
	Limit func(t *testing.T, topic string, bytes int)
	// Keep makes the broker remove messages of topic once they are that old. Nil: the driver does not support
	// Keeps.
	Keep func(t *testing.T, topic string, d time.Duration)
	// Purge removes the first messages of topic, so many, as its retention would. Nil: messages are never
	// removed before they are read.
	Purge func(t *testing.T, topic string, n int)
	// Fill leaves topic no room, or next to none, until drain and until what is in it was acknowledged. Nil:
	// no topic of the broker is ever full.
	Fill func(t *testing.T, topic string) (drain func())
	// Disturb makes publishes to the broker fail now and then, some of them after they took effect, until
	// stop. Nil: the broker cannot be disturbed.
	Disturb func(t *testing.T) (stop func())
	// Foreign writes what a producer that is not Skald's would write. Nil: the driver has no wire format.
	Foreign func(t *testing.T, topic string, r Record)
	// Mapped makes a client with this envelope. Nil: the driver has no wire format.
	Mapped func(t *testing.T, e *broker.Envelope) Broker
	// Prefix is what the names of CloudEvents attributes begin with on the wire. Default "ce_".
	Prefix string
	// ByName: on the wire headers have names, and no order among those of different names: they arrive sorted
	// by name.
	ByName bool
	// Once: on the wire a name is there once; the last of those that are alike.
	Once bool
	// Kill ends a member as sudden death would: nothing is stored, nothing handed over. Nil: the members of
	// this broker cannot be killed.
	Kill func(t *testing.T, s broker.Subscription)
	// Remove deletes a topic. Nil: what is published to a topic that was made anew a moment ago, under the id
	// that it had before, may be taken.
	Remove func(t *testing.T, topic string)
	// Drop deletes a topic, whatever becomes of what is published to it meanwhile. Default: Remove.
	Drop func(t *testing.T, topic string)
	// Counts: the broker counts deliveries, so Attempt is above 0 when a message comes again.
	Counts bool
	// Forward: the broker cannot rewind. A group begins with what is published once it has joined for the
	// first time, and what no group asks for is refused; a position numbers what one owner of a partition was
	// given.
	Forward bool
	// Capabilities are the driver's. Nil: it declares none.
	Capabilities func() broker.Capabilities
	// Via makes a client that dials by dial alone, which has a Proxy behind it, and recovers soon. Nil: there
	// is nothing to dial.
	Via func(t *testing.T, dial func(ctx context.Context, network, address string) (net.Conn, error)) Broker
	// Steps is at how many steps each fault meets a connection. Default 4.
	Steps int
	// Messages is how many messages the tests under load send. Default 2,000.
	Messages int
}

// Record is a message as it lies on the wire.
type Record struct {
	Key, Data []byte
	Headers   []skald.Header
}

// Holds is how many messages members of Harness.Frugal hold, about: never twice as many.
const Holds = 50

// disturbing is the test that runs alone: Harness.Disturb may fail the publishes of every client.
const disturbing = "Contract/FailuresAmongPipelinedCalls"

// patience is how long a test waits for what must come. It is never waited for in a run that passes; a bug
// that is seeded is to be found soon.
func patience() time.Duration {
	if seeded.Bug() != "" {
		return 15 * time.Second
	}
	return 4 * time.Minute
}

// Run runs the suite, each test with its own harness. Harnesses may share a broker, because each test makes
// topics and groups with unique names. The tests run in parallel: most of their time is waiting.
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
		{"Envelope/OfATeam", testEnvelope},
		{"Envelope/OfOthers", testEnvelopeOfOthers},
		{"Envelope/TypeIsTopic", testTypeIsTopic},
		{"Topics/Missing", testMissingTopic},
		{"Topics/MadeOnlyOnce", testMakeTopics},
		{"Topics/Checked", testCheckTopics},
		{"Topics/Kept", testKept},
		{"Topics/Lag", testLag},
		{"Topics/Only", testOnly},
		{"Topics/MadeAnew", testMadeAnew},
		{"Topics/MadeAtOnce", testMadeAtOnce},
		{"Topics/NamesToEncode", testEncodedNames},
		{"Topics/SubscribeToMissing", testSubscribeToMissing},
		{"Order/KeyAndPartition", testOrder},
		{"Order/PipelinedCalls", testPipelined},
		{"Order/WithoutKeySpreads", testWithoutKey},
		{"Groups/CompeteAndFanOut", testCompete},
		{"Groups/LateOneStartsWhereTheBrokerCan", testLateGroup},
		{"Groups/AnotherOwner", testAnotherOwner},
		{"Groups/ManyTopics", testManyTopics},
		{"Groups/HundredTopics", testHundredTopics},
		{"Groups/SlowConsumer", testSlowConsumer},
		{"Groups/ReadyTellsOfMessages", testReady},
		{"Groups/RebalanceUnderLoad", testRebalance},
		{"Groups/CloseHandsOverAtOnce", testHandOver},
		{"Groups/KilledMember", testKill},
		{"Groups/NewLifeOfAMember", testNewLife},
		{"Ack/PrefixDoesNotComeAgain", testAckPrefix},
		{"Ack/PartitionsByTurns", testAckByTurns},
		{"Ack/LostPartitionIsIgnored", testAckLost},
		{"Pause/HoldsALaneOnly", testPause},
		{"Pause/EndsWithThePartition", testPauseEnds},
		{"Resume/TableOfBeginnings", testBegin},
		{"Resume/FromWhereItIsWanted", testResume},
		{"Resume/OriginOfATopicMadeAnew", testOrigin},
		{"Resume/TopicRecreatedUnderAMember", testRecreatedUnderAMember},
		{"Resume/TellsOfWhatWasRemovedUnread", testRemovedUnread},
		{"Resume/TellsWhereItBegins", testStart},
		{"Resume/FindsATime", testFind},
		{"Life/Capabilities", testCapabilities},
		{"Life/Incarnation", testIncarnation},
		{"Life/Close", testClose},
		{"Life/CloseInTheMiddle", testCloseInTheMiddle},
		{"Life/ConnectionLostAtEveryStep", testLossAtEveryStep},
		{"Life/EndedContext", testEndedContext},
		{"Contract/RefusedAlone", testRefused},
		{"Contract/HeldBackUntilWait", testHeldBack},
		{"Contract/RefusalsAmongPipelinedCalls", testRefusals},
		{disturbing, testFailures},
		{"Contract/FullTopicFailsAlone", testFull},
	}
}

// suite is one test's view: its harness and its names.
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

// open makes a client that lasts as long as the test.
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

// topic makes a topic of the test's own; groups will read what is published from now on.
func (s *suite) topic(t *testing.T, b Broker, name string, partitions int, groups ...string) string {
	t.Helper()
	name = s.id + "." + name
	must(t, "make topic", b.MakeTopics(t.Context(), partitions, name))
	for _, g := range groups {
		s.begin(t, b, g, name)
	}
	return name
}

// begin lets a group begin here, where that is not the beginning of the topic anyhow.
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

// member is a subscription and what it was told.
type member struct {
	broker.Subscription
	partitions map[string]bool
	lost       []broker.Partition
	last       map[string]int64 // position by partition, since it was gained
}

// receive takes what is there and holds it to what Batch promises.
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

// until receives until done says so, woken by nothing but Ready.
func (m *member) until(t *testing.T, what string, done func([]broker.Delivery) bool) {
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
	m.until(t, fmt.Sprintf("%d messages", n), func(ds []broker.Delivery) bool {
		out = append(out, ds...)
		return len(out) >= n
	})
	if len(out) != n {
		t.Fatalf("received %d messages, want %d: %v", len(out), n, ids(out))
	}
	return out
}

// owns receives until the member has n partitions; messages that come meanwhile are returned.
func (m *member) owns(t *testing.T, n int) (out []broker.Delivery) {
	t.Helper()
	m.until(t, fmt.Sprintf("ownership of %d partitions", n), func(ds []broker.Delivery) bool {
		out = append(out, ds...)
		return len(m.partitions) == n
	})
	return out
}

// settle receives by turns until each has as many partitions as want says.
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

// pause waits a moment between two looks at what must become true before deadline.
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
