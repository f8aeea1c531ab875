package bridges_test

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/skald-go/skald/bridges"
)

// partitions of each topic: fewer than the members that some tests have.
const partitions = 4

// features are what Watermill asks of an adapter, answered for Skald's drivers behind the bridge.
func features() tests.Features {
	return tests.Features{
		ConsumerGroups:  true,
		GuaranteedOrder: true, // per key, with as many members as like, while partitions move between them
		Persistent:      true, // for a new client of the same broker; the one in memory ends with its process
	}
}

// elsewhere are the parts of Watermill's suite that TestWatermill does not run, each with the reason, and
// with where it runs. (What a part asks for only of some is decided by features: exactly-once delivery is for
// no broker to give, and contexts do not travel.)
func elsewhere() map[string]string {
	return map[string]string{
		"TestReconnect":                        "it kills the server, which others use: TestWatermillReconnect, on a server of its own; the broker in memory has none to be killed",
		"TestNewSubscriberReceivesOldMessages": "wants subscribers that see everything, and in one group they share: TestWatermillOldMessages, with a group each",
	}
}

// suite is what Watermill's suite consists of.
func suite() []string {
	return []string{
		"TestPublishSubscribe", "TestConcurrentSubscribe", "TestConcurrentSubscribeMultipleTopics",
		"TestResendOnError", "TestNoAck",
		"TestContinueAfterSubscribeClose", "TestConcurrentClose", "TestContinueAfterErrors",
		"TestPublishSubscribeInOrder", "TestPublisherClose",
		"TestTopic", "TestMessageCtx", "TestSubscribeCtx", "TestNewSubscriberReceivesOldMessages",
		"TestReconnect", "TestConsumerGroups",
	}
}

func TestWatermill(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			client := k.shared(t)
			ran := &names{all: map[string]bool{}}
			f := features()
			f.ForceShort = k.short && !*full
			t.Run("suite", func(t *testing.T) {
				tests.TestPubSub(t, f, func(t *testing.T) (wm.Publisher, wm.Subscriber) {
					ran.add(t)
					return pair(client(t), group(t))
				}, func(t *testing.T, group string) (wm.Publisher, wm.Subscriber) {
					ran.add(t)
					return pair(client(t), group)
				})
			})
			ran.check(t)
		})
	}
}

// keyed: the suite looks at the order of messages of equal payload, but for "x", which all have where it does
// not.
func keyed(m *wm.Message) []byte {
	if string(m.Payload) == "x" {
		return []byte(m.UUID)
	}
	return []byte(m.Payload)
}

func pair(b bus, group string) (wm.Publisher, wm.Subscriber) {
	return bridges.NewWatermillPublisher(b, keyed),
		bridges.NewWatermillSubscriber(b, group, partitions, watermill.NewStdLogger(false, false))
}

// group is the same for all clients of a test, and another for each test and run.
func group(t *testing.T) string {
	return "bridges." + t.Name()[strings.LastIndexByte(t.Name(), '/')+1:]
}

// names are the tests that made a client, so were not skipped.
type names struct {
	mu  sync.Mutex
	all map[string]bool
}

func (n *names) add(t *testing.T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for part := range strings.SplitSeq(t.Name(), "/") {
		if strings.HasPrefix(part, "Test") && part != "TestWatermill" {
			n.all[part] = true
		}
	}
}

// check holds what ran to suite and elsewhere, and says what did not.
func (n *names) check(t *testing.T) {
	if strings.Count(flag.Lookup("test.run").Value.String(), "/") > 1 {
		return // some were asked for by name
	}
	for _, name := range suite() {
		why := elsewhere()[name]
		switch {
		case why == "" && !n.all[name]:
			t.Errorf("%s did not run, and elsewhere has no reason", name)
		case why != "" && n.all[name]:
			t.Errorf("%s ran, though elsewhere says: %s", name, why)
		case why != "":
			t.Logf("%s does not run here: %s", name, why)
		}
		delete(n.all, name)
	}
	for name := range n.all {
		t.Errorf("%s is not in suite", name)
	}
}

// once is the context of a test of the suite that runs by itself.
func once(f tests.Features) tests.TestContext {
	return tests.TestContext{TestID: tests.NewTestID(), Features: f}
}

func TestWatermillOldMessages(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			if k.forward {
				t.Skip("the broker cannot rewind: a group that is new begins where it joined")
			}
			client := k.shared(t)
			f := features()
			f.NewSubscriberReceivesOldMessages = true
			n := 0
			tests.TestNewSubscriberReceivesOldMessages(t, once(f),
				func(t *testing.T) (wm.Publisher, wm.Subscriber) {
					n++
					return pair(client(t), fmt.Sprintf("bridges.%x.%d", time.Now().UnixNano(), n))
				})
		})
	}
}
