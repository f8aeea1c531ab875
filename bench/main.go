// Command bench measures Skald against hand-written floors, tutorials' forms and peers, side by side: the
// contenders of a comparison take turns in one run on the same servers, several times, and the ratios come
// with their spread.
//
//	eval "$(../scripts/services env)" && go run . [-only REGEXP] [-reps 3] [-dur 2s] [-rows N] …
//
// It makes databases skald_bench_* and topics skald_bench_*, and removes those that it made.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

// bench is one run.
type bench struct {
	pg, kafka     string
	nats          string // empty: one is started
	rabbit        string
	redis         string // empty: none
	debezium      string // folder of jars; empty: none
	second        string // whose processor time stands beside ours
	reps          int
	dur           time.Duration
	traced        uint64
	rows          int // backlog of our drains and their floors
	peerRows      int // backlog of the peers' drains
	backlog       int // the large one
	parked        int
	parkedKeys    int
	marks         int
	sagasLive     int
	sagasFinished int
	pageRows      int
	pageDB        string
	hold          time.Duration // of the transaction that is held open
	limit         time.Duration // of one drain
	quiet         time.Duration
	profiles      string
	contenders    *regexp.Regexp

	out, errs io.Writer
	json      *os.File
	probe     *probe
	undo      []func() error // of the comparison under way
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	if os.Getenv(asNATS) != "" {
		return beNATS(os.Args[1], os.Args[2])
	}
	if os.Getenv(asEngine) != "" {
		return beEngine(os.Args[1], os.Args[2], os.Args[3])
	}
	b := &bench{out: os.Stdout, errs: os.Stderr, second: "PostgreSQL"}
	flag.StringVar(&b.pg, "pg", os.Getenv("SKALD_TEST_POSTGRES"),
		"a superuser's `URL` of PostgreSQL (SKALD_TEST_POSTGRES)")
	flag.StringVar(&b.kafka, "kafka", os.Getenv("SKALD_TEST_KAFKA"),
		"`host:port` of Kafka; empty: without its comparisons (SKALD_TEST_KAFKA)")
	flag.StringVar(&b.nats, "nats", "",
		"`host:port` of a NATS with JetStream; empty: one of the benchmark's own, as it comes, which answers before the disk has it")
	flag.StringVar(&b.rabbit, "rabbitmq", os.Getenv("SKALD_TEST_RABBITMQ"),
		"`amqp://host:port` of RabbitMQ; empty: without its comparisons (SKALD_TEST_RABBITMQ)")
	flag.StringVar(&b.redis, "redis", os.Getenv("SKALD_TEST_REDIS"),
		"`redis://host:port`; empty: without its comparisons (SKALD_TEST_REDIS)")
	flag.StringVar(&b.debezium, "debezium", os.Getenv("SKALD_TEST_DEBEZIUM"),
		"`folder` with the jars of Debezium and Kafka Connect; empty: without it (SKALD_TEST_DEBEZIUM)")
	flag.IntVar(&b.reps, "reps", 3, "turns of each contender")
	flag.DurationVar(&b.dur, "dur", 2*time.Second, "time of a measurement that is not a drain")
	flag.Uint64Var(&b.traced, "traced", 100, "one message in so many is sampled where telemetry is on")
	flag.IntVar(&b.rows, "rows", 500_000, "backlog of the drains")
	flag.IntVar(&b.peerRows, "peer-rows", 20_000,
		"backlog of the peers' drains: some of them slow down with it")
	flag.IntVar(&b.backlog, "backlog", 1_000_000, "the large backlog of the comparison backlog")
	flag.IntVar(&b.parked, "parked", 100_000, "how many messages the comparisons parked-… have parked")
	flag.IntVar(&b.parkedKeys, "parked-keys", 10_000, "of how many keys these are")
	flag.IntVar(&b.marks, "marks", 1_000_000,
		"the many marks of the comparisons marks-…, and the rows of outbox-purge")
	flag.IntVar(&b.sagasLive, "sagas", 1_000_000,
		"how many choreographed sagas the comparison status has under way")
	flag.IntVar(&b.sagasFinished, "sagas-finished", 1_000_000,
		"how many finished sagas the comparison sagas-crowded has; a tenth of that waits")
	flag.StringVar(&b.pageDB, "page-db", "",
		"`URL` of a database for the comparison console, which it fills if it is empty, and leaves; without one it makes its own")
	flag.IntVar(&b.pageRows, "page-rows", 1_000_000, "how many rows the comparison console has in all")
	flag.DurationVar(&b.hold, "hold", time.Minute, "how long the comparison held keeps a transaction open")
	flag.DurationVar(&b.limit, "limit", 20*time.Second, "the longest that one drain is watched")
	flag.DurationVar(&b.quiet, "quiet", 3*time.Second,
		"the longest to wait, before each turn, for other programs to be quiet")
	flag.StringVar(&b.profiles, "cpuprofile", "", "`folder` for a CPU profile of each turn")
	only := flag.String("only", ".", "`regexp` of the comparisons to run")
	who := flag.String("contenders", ".", "`regexp` of the contenders that take part")
	lines := flag.String("json", "", "`file` to which each measurement is appended as a line of JSON")
	flag.Parse()
	if b.pg == "" {
		return errors.New(`no PostgreSQL: eval "$(../scripts/services env)", or -pg URL`)
	}
	re, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if b.contenders, err = regexp.Compile(*who); err != nil {
		return fmt.Errorf("-contenders: %w", err)
	}
	if *lines != "" {
		if b.json, err = os.OpenFile(*lines, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return fmt.Errorf("-json: %w", err)
		}
		defer b.json.Close()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return b.run(ctx, re)
}

func (b *bench) run(ctx context.Context, only *regexp.Regexp) error {
	var err error
	if b.probe, err = newProbe(ctx, b.pg); err != nil {
		return err
	}
	defer b.probe.conn.Close(context.WithoutCancel(ctx))
	if err := b.settings(ctx); err != nil {
		return err
	}
	for _, c := range append(comparisons(), wires()...) {
		switch {
		case !only.MatchString(c.name):
		case c.kafka && b.kafka == "":
			fmt.Fprintf(b.out, "\n## %s: left out, no Kafka is named\n", c.name)
		case c.there != nil && !c.there(b):
			fmt.Fprintf(b.out, "\n## %s: left out, no such server is named\n", c.name)
		default:
			if err := b.play(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// settings prints what the figures depend on.
func (b *bench) settings(ctx context.Context) error {
	fmt.Fprintf(b.out, "Machine: %d processors, %s %s/%s.", runtime.NumCPU(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
	for _, name := range []string{"server_version", "shared_buffers", "max_connections", "wal_level", "fsync",
		"synchronous_commit", "full_page_writes"} {
		var value string
		if err := b.probe.conn.QueryRow(ctx, "select current_setting($1)", name).Scan(&value); err != nil {
			return fmt.Errorf("read setting %s: %w", name, err)
		}
		fmt.Fprintf(b.out, " %s=%s", name, value)
	}
	fmt.Fprintln(b.out)
	return nil
}

func comparisons() []comparison {
	return append([]comparison{
		writes(), batchWrites(), ormWrites(), drains(), articlePollers(), kafkaDrains(), idle(), kafkaIdle(),
		wakes(), idleLoad(), walDrains(), walFlows(), walIdles(), messages(), batches(), duplicates(),
		inFront(), lockings(), sharedQueue(),
		parkedDrains(), neighbours(), besideBadKeys(), marksKept(), emptied(), purges(), slowTrips(),
		backlogs(), held(), demo(), endpoints(), added("latency", false, 0.5, 0.5),
		added("latency-slow", true, 0.5, 1), repeatsInFront(),
		orchestrated(), engineAlone(), crowded(), engineInFile(), farAway(), recoveries(), tracked(),
		answered(), consolePages(),
	}, estate()...)
}
