package skald_test

import (
	"os"
	"strings"
	"testing"
)

// The rules of the house (docs/design.md). The tests read the files themselves: one that asks `go list` is
// answered from the test cache.

const module = "github.com/skald-go/skald"

// A rule says what the code of a folder, and of the folders in it, may import besides the standard library and
// its own subtree. Tests are free.
type rule struct {
	ours    []string // folders of ours, each with the folders in it; "." is the root alone
	vendors []string // module path prefixes, of one project
}

const otel = "go.opentelemetry.io/otel"

func house() map[string]rule {
	var (
		station = rule{ours: []string{".", "store", "broker", "internal"}, vendors: []string{otel}}
		above   = []string{".", "store", "broker", "outbox", "relay", "inbox"}
	)
	return map[string]rule{
		".":        {},
		"store":    {ours: []string{"."}},
		"broker":   {ours: []string{"."}},
		"internal": {ours: []string{".", "store", "broker"}, vendors: []string{otel}},

		"internal/pgbed":     {ours: []string{"internal", "store/storetest"}},
		"internal/brokerurl": {}, // what drivers of brokers share, and their vendors do not matter to
		"internal/perkey":    {ours: []string{".", "broker"}},

		"outbox": station,
		"relay":  station,
		"inbox":  station,

		"store/memstore":    driver("store"),
		"store/sqlitestore": driver("store", "modernc.org/"),
		"store/pgstore":     driver("store", "github.com/jackc/"),
		"store/storetest":   {ours: []string{".", "store", "store/memstore", "internal"}, vendors: []string{"pgregory.net/"}}, // the oracle

		"broker/membroker":    driver("broker"),
		"broker/kafkabroker":  driver("broker", "github.com/twmb/"),
		"broker/natsbroker":   driver("broker", "github.com/nats-io/nats.go", "github.com/nats-io/nuid"), // not the server
		"broker/rabbitbroker": driver("broker", "github.com/rabbitmq/"),
		"broker/brokertest":   suite("broker", "broker/membroker"),

		"sagatest": {ours: append([]string{"internal", "store/memstore", "broker/membroker", "store/storetest", "broker/brokertest"}, above...)},
		"cmd":      {ours: append([]string{"internal", "sagatest", "examples", "drivers"}, above...), vendors: []string{"*"}},
		"examples": {ours: append([]string{"sagatest", "drivers"}, above...), vendors: []string{"*"}}, // the public API alone
	}
}

func driver(seam string, vendors ...string) rule {
	return rule{ours: []string{".", seam, "internal"}, vendors: append(vendors, otel)}
}

// suite is what a conformance suite may import: the driver in memory, too, which others are compared with.
func suite(seam, memory string) rule {
	return rule{ours: []string{".", seam, "internal", memory}}
}

// onlyTests are imported by tests alone, and by the folders that they are listed with.
func onlyTests() map[string][]string {
	return map[string][]string{
		"store/storetest":   {"sagatest", "internal/pgbed"},
		"broker/brokertest": {"sagatest"},
		"sagatest":          {"cmd", "examples"},
		"internal/need":     nil,
		"internal/pgbed":    nil,
		"testing":           {"store/storetest", "broker/brokertest", "sagatest", "internal/need", "internal/pgbed"},
	}
}

// A check returns what it finds against its rule, one line each.
type check struct {
	name string
	run  func(tree) []string
}

func checks() []check {
	return []check{
		{"imports", checkImports},
		{"only tests", checkOnlyTests},
		{"seams", checkSeams},
		{"sizes", checkSizes},
		{"variables", checkVariables},
		{"init and panic", checkInitAndPanic},
		{"package names", checkNames},
		{"no DDL at run time", checkDDL},
		{"no session state", checkSession},
	}
}

func TestHouse(t *testing.T) {
	all, err := read(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if len(all.files) < 10 {
		t.Fatalf("read only %d files", len(all.files))
	}
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			if found := c.run(all); len(found) > 0 {
				t.Errorf("against the rules of the house:\n\t%s", strings.Join(found, "\n\t"))
			}
		})
	}
}
