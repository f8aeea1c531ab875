package skald_test

import (
	"os"
	"strings"
	"testing"
)

// This file has the rules for imports (docs/dev/design.md). The tests read the source files. They do not run
// `go list`, because the test cache does not notice its changes.

const module = "github.com/skald-go/skald"

// rule has the imports that the code of a folder, and of the folders in it, may use in addition to the
// standard library and its own subtree. The rules do not apply to tests.
type rule struct {
	ours    []string // folders of ours, each with the folders in it; "." is the root alone
	vendors []string // module path prefixes, of one project
}

const otel = "go.opentelemetry.io/otel"

func house() map[string]rule {
	var (
		shared  = []string{"once", "call", "failure"} // below the stations, which never import each other
		below   = rule{ours: append([]string{".", "store", "internal"}, shared...)}
		station = rule{ours: append([]string{"broker"}, below.ours...), vendors: []string{otel}}
		above   = append([]string{".", "store", "broker", "outbox", "relay", "inbox", "operate", "health",
			"lock", "rediscmd", "rediscache", "redislock", "schema", "httpidem", "foreign", "saga", "flow",
			"status", "console"}, shared...)
	)
	return map[string]rule{
		".":        {ours: []string{"internal/fingerprint"}},
		"store":    {ours: []string{"."}},
		"broker":   {ours: []string{"."}},
		"internal": {ours: []string{".", "store", "broker"}, vendors: []string{otel}},

		"internal/pgbed": {ours: []string{"internal", "store/storetest"},
			vendors: []string{"github.com/jackc/pgx/"}},

		"failure": {ours: []string{".", "store", "internal"}},
		"once":    below,
		"call":    below,

		// Redis in front: the clients' adapters alone know a client.
		"lock":       {ours: []string{".", "store", "once"}},
		"rediscmd":   {ours: []string{"internal/backoff"}},
		"rediscache": {ours: []string{".", "store", "once", "rediscmd", "internal"}, vendors: []string{otel}},
		"redislock": {ours: []string{".", "store", "once", "lock", "rediscmd", "internal"},
			vendors: []string{otel}},

		"rediscmd/goredis":    {ours: []string{"rediscmd"}, vendors: []string{"github.com/redis/go-redis/"}},
		"rediscmd/rueidiscmd": {ours: []string{"rediscmd"}, vendors: []string{"github.com/redis/rueidis"}},

		"outbox": station,
		"relay":  station,
		"inbox":  station,

		"inbox/internal/decide":    {ours: []string{"store"}}, // pure: no seam is called, no clock
		"inbox/internal/partition": {ours: []string{"store", "broker", "internal", "failure"}},
		"inbox/internal/checkpoint": {ours: []string{"store", "broker", "internal", "failure",
			"inbox/internal/partition"}},
		"inbox/internal/exec": {ours: append([]string{"broker", "inbox/internal/decide",
			"inbox/internal/partition"}, below.ours...),
			vendors: []string{otel}},

		"foreign": station, // tables of other teams, by database/sql

		// idempotent HTTP endpoints, and the client side
		"httpidem": {ours: below.ours, vendors: []string{otel}},
		"saga": {ours: append([]string{"broker", "inbox"}, below.ours...),
			vendors: []string{otel}},
		"internal/saga/engine": {ours: []string{".", "store", "internal", "call", "failure"}},
		"internal/saga/plan":   {}, // pure: no seam, no clock
		"internal/saga/draw":   {ours: []string{"internal/saga/plan"}},

		// what an operator does: the command and services call it
		"operate": {ours: []string{".", "store", "broker", "failure", "internal", "flow"}},
		// probes over HTTP, which any service mounts
		"health": {ours: []string{"."}},
		// a consumer like others, of the user's
		"flow": {ours: []string{".", "store", "inbox", "failure", "internal"}},
		// how sagas stand, over HTTP, which any service mounts
		"status": {ours: []string{".", "store", "failure", "operate", "flow", "internal/endpoint"}},

		// what is in the tables, over HTTP, which any service mounts
		"console": {ours: []string{".", "failure", "store", "operate", "internal"}},

		"store/memstore":    driver("store"),
		"store/sqlitestore": driver("store", "modernc.org/"),
		"store/pgstore":     driver("store", "github.com/jackc/"),
		// the oracle
		"store/storetest": {ours: []string{".", "store", "store/memstore", "internal"},
			vendors: []string{"pgregory.net/"}},

		"broker/internal":    {ours: []string{".", "broker", "internal"}}, // what drivers share
		"broker/membroker":   driver("broker"),
		"broker/kafkabroker": driver("broker", "github.com/twmb/"),
		// not the server
		"broker/natsbroker":   driver("broker", "github.com/nats-io/nats.go", "github.com/nats-io/nuid"),
		"broker/rabbitbroker": driver("broker", "github.com/rabbitmq/"),
		"broker/brokertest":   suite("broker", "broker/membroker"),

		"schema": {ours: []string{".", "store"}, vendors: []string{"github.com/twmb/franz-go/pkg/sr"}},
		// a program links only the languages that it uses
		"schema/avro": {ours: []string{".", "schema", "internal/fingerprint"}, vendors: []string{"github.com/twmb/avro"}},
		"schema/protobuf": {ours: []string{".", "schema"},
			vendors: []string{"google.golang.org/protobuf", "github.com/bufbuild/protocompile"}},
		"schema/jsonschema": {ours: []string{".", "schema", "internal/fingerprint"},
			vendors: []string{"github.com/google/jsonschema-go", "github.com/santhosh-tekuri/jsonschema/v6"}},

		"sagatest": {ours: append([]string{"internal", "store/memstore", "broker/membroker",
			"store/storetest", "broker/brokertest"}, above...)},
		"cmd": {ours: append([]string{"internal", "operate", "drivers"}, above...), vendors: []string{"*"}},
		// the public API alone
		"examples": {ours: append([]string{"sagatest", "drivers"}, above...), vendors: []string{"*"}},

		// The demo alone may use the shop and the test kit: a build without it has neither.
		"cmd/skald/internal/demo": {ours: append([]string{"cmd/skald/internal", "internal", "sagatest",
			"examples", "drivers"}, above...), vendors: []string{"*"}},
	}
}

// ranks returns the packages from the lowest to the highest rank, in the order of docs/dev/architecture.md.
// A package must not import a package of the same or a higher rank. The rank of a folder also applies to the
// folders in it, unless they have another rank.
func ranks() [][]string {
	return [][]string{
		{"internal/fingerprint"},
		{".", "internal/backoff", "internal/endpoint",
			"internal/need", "internal/seeded", "internal/testlog",
			"internal/saga/plan", "internal/shortlog", "internal/sqlfile",
			"internal/uuid7"},
		{"store", "broker", "rediscmd", "internal/diskfree", "internal/lending", "internal/saga/draw"},
		{"failure", "internal", "schema"},
		{"broker/internal", "internal/complete", "call"},
		{"once"},
		{"internal/saga/engine"},
		{"store/memstore", "store/sqlitestore", "store/pgstore", "broker/membroker", "broker/kafkabroker",
			"broker/natsbroker", "broker/rabbitbroker"},
		{"store/storetest", "broker/brokertest"},
		{"inbox/internal/decide",
			"inbox/internal/partition"},
		{"inbox/internal/checkpoint", "inbox/internal/exec"},
		{"outbox", "relay", "inbox", "lock", "rediscache", "foreign"},
		{"redislock", "httpidem", "saga", "flow"},
		{"operate", "health"},
		{"status", "console"},
		{"internal/pgbed", "sagatest"},
		{"examples"},
		{"cmd/skald/internal/cli"},
		{"cmd/skald/internal/connect"},
		{"cmd/skald/internal/verbs", "cmd/skald/internal/demo"},
		{"cmd"},
	}
}

func driver(seam string, vendors ...string) rule {
	return rule{ours: []string{".", seam, seam + "/internal", "internal"}, vendors: append(vendors, otel)}
}

// suite returns the rule of a conformance suite. The suite may import the driver in memory, because it
// compares the other drivers with that one.
func suite(seam, memory string) rule {
	return rule{ours: []string{".", seam, "internal", memory}}
}

// onlyTests returns the packages that only tests may import, each with the folders that may import it, too.
func onlyTests() map[string][]string {
	return map[string][]string{
		"store/storetest":   {"sagatest", "internal/pgbed"},
		"broker/brokertest": {"sagatest"},
		"sagatest":          {"cmd/skald/internal/demo", "examples"},
		"internal/need":     nil,
		"internal/seeded":   {"broker/brokertest"},
		"internal/testlog":  nil,
		"internal/pgbed":    nil,
		"testing": {"store/storetest", "broker/brokertest", "sagatest", "internal/need",
			"internal/pgbed", "internal/seeded"},
	}
}

// lone returns the internal packages with one importer, each with the reason why it is a separate package.
func lone() map[string]string {
	return map[string]string{
		"cmd/skald/internal/demo":          "a program of its own, which tests of the command run",
		"cmd/skald/internal/verbs":         "the command without its process: tests run verbs in one",
		"console/internal/view":            "pages, behind the guards of the console",
		"inbox/internal/checkpoint":        "positions and partitions, apart from the loop",
		"inbox/internal/exec":              "attempts at a message, apart from the loop",
		"store/pgstore/internal/admin":     "statements of operators: their rights and their tables",
		"store/sqlitestore/internal/admin": "statements of operators",
	}
}

// aliases returns the public aliases of internal types, each with its reason.
func aliases() map[string]string {
	migrations := "written by internal/admin, which pgstore and its tests import"
	return map[string]string{
		"console.Unreachable":         "an error page that the views return",
		"saga.DB":                     "the constraint of the engine, whose methods nobody calls",
		"store/pgstore.Listener":      "opened by internal/sqlexec",
		"store/pgstore.Migration":     migrations,
		"store/pgstore.Database":      migrations,
		"store/pgstore.Step":          migrations,
		"store/sqlitestore.Migration": "written by internal/admin",
	}
}

// check is one rule. Its function returns a line for each violation.
type check struct {
	name string
	run  func(tree) []string
}

func checks() []check {
	return []check{
		{"imports", checkImports},
		{"ranks", checkRanks},
		{"only tests", checkOnlyTests},
		{"seams", checkSeams},
		{"sizes", checkSizes},
		{"width", checkWidth},
		{"variables", checkVariables},
		{"init and panic", checkInitAndPanic},
		{"package names", checkNames},
		{"no DDL at run time", checkDDL},
		{"no session state", checkSession},
		{"deadlines", checkDeadlines},
		{"aliases", checkAliases},
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
	if found := loneAmong(all); len(found) > 0 {
		t.Errorf("internal packages:\n\t%s", strings.Join(found, "\n\t"))
	}
}
