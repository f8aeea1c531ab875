package skald_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/broker/rabbitbroker"
)

// TestCapabilitiesInDocs requires in docs/brokers.md the capabilities that matter to a user of a driver.
// brokertest compares the drivers with all of their capabilities.
func TestCapabilitiesInDocs(t *testing.T) {
	drivers := []broker.Capabilities{kafkabroker.Capabilities(), rabbitbroker.Capabilities(),
		natsbroker.Capabilities(), membroker.Capabilities()}
	yes := func(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }
	var want strings.Builder
	want.WriteString("| | Kafka | RabbitMQ | NATS | in this process |\n|---|---|---|---|---|\n")
	for _, row := range []struct {
		name string
		of   func(broker.Capabilities) string
	}{
		{"a partition is", func(c broker.Capabilities) string { return c.Partition }},
		{"a new group begins at", func(c broker.Capabilities) string { return c.LateGroup }},
		{"an acknowledgement covers", func(c broker.Capabilities) string { return c.Acks }},
		{"data of a message, at most, as installed",
			func(c broker.Capabilities) string { return fmt.Sprintf("%d KiB", c.LargestKiB) }},
		{"can be rewound", func(c broker.Capabilities) string { return yes(c.Rewinds) }},
		{"reports missing topics (`skald migrate --broker`)",
			func(c broker.Capabilities) string { return yes(c.Checks) }},
		{"reports its retention of messages", func(c broker.Capabilities) string { return yes(c.Keeps) }},
		{"keeps to which database a group belongs",
			func(c broker.Capabilities) string { return yes(c.Owners) }},
	} {
		want.WriteString("| " + row.name)
		for _, is := range drivers {
			want.WriteString(" | " + row.of(is))
		}
		want.WriteString(" |\n")
	}
	page, err := os.ReadFile("docs/brokers.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), want.String()) {
		t.Errorf("docs/brokers.md has not this table:\n%s", &want)
	}
}
