package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
)

// The options of Java that Kafka's own bin/connect-standalone.sh gives.
const connectJava = "-Xms256M -Xmx2G -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent"

const debeziumNote = `
%s: in Kafka Connect standalone, a Java of its own (-Xms256M -Xmx2G, G1), warmed up; configured as "skald debezium config" prints.
Producer as Connect has it (acks=all, batch.size 16384, one request in flight, not idempotent), max.batch.size 2048, max.queue.size 8192,
poll.interval.ms 500 unless said, offset.flush.interval.ms 10000. CPU of the client has Java's and the benchmark's. It decodes each row from
the WAL and moves no position of the outbox: emptying takes a "skald relay --read-by" beside it, which is not counted.
`

// A connect is a Kafka Connect that runs Debezium's connector on an outbox, one at a time. It starts when it
// is first needed, and lives until the end of the comparison.
type connect struct {
	b      *bench
	pool   *pgxpool.Pool // of the outbox
	config map[string]string
	adm    *kadm.Client
	cmd    *exec.Cmd
	at     string
	log    string // its file
	past   string // a slot that nobody reads: what was written behind it can be read again and again
}

// connectTo makes the publication and a slot; nil: Debezium is not there, or takes no part.
func (b *bench) connectTo(ctx context.Context, pool *pgxpool.Pool) (*connect, error) {
	if !b.contenders.MatchString(debeziumName) {
		return nil, nil
	}
	if b.debezium == "" {
		fmt.Fprintf(b.out,
			"\n%s: left out, no folder of it is named (scripts/services up debezium, or -debezium)\n",
			debeziumName)
		return nil, nil
	}
	if _, err := exec.LookPath("java"); err != nil {
		fmt.Fprintf(b.out, "\n%s: left out, there is no java\n", debeziumName)
		return nil, nil
	}
	jars, _ := filepath.Glob(filepath.Join(b.debezium, "debezium-connector-postgres-*.jar"))
	if len(jars) == 0 {
		return nil, fmt.Errorf("-debezium: %s has no debezium-connector-postgres-*.jar", b.debezium)
	}
	fmt.Fprintf(b.out, debeziumNote, strings.NewReplacer("debezium-connector-postgres-", "Debezium ", ".jar",
		"").Replace(filepath.Base(jars[0])))
	c := &connect{b: b, pool: pool, past: name()}
	cl, err := b.producer()
	if err != nil {
		return nil, err
	}
	c.adm = kadm.NewClient(cl)
	if err := c.configure(ctx); err != nil {
		return nil, err
	}
	b.later(func() error { return c.dropSlots(context.WithoutCancel(ctx)) })
	b.later(c.kill)
	_, err = pool.Exec(ctx, "select pg_create_logical_replication_slot($1, 'pgoutput')", c.past)
	return c, err
}

// configure takes what the command prints, and makes the publication of it.
func (c *connect) configure(ctx context.Context) error {
	at := c.pool.Config().ConnConfig
	cmd := exec.CommandContext(ctx, "go", "run", "./cmd/skald", "debezium", "config")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "SKALD_STORE="+c.pool.Config().ConnString())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("skald debezium config: %w\n%s", err, &errs)
	}
	var printed struct{ Config map[string]string }
	if err := json.Unmarshal(out.Bytes(), &printed); err != nil {
		return fmt.Errorf("skald debezium config: %w", err)
	}
	c.config = printed.Config
	if at.Password != "" {
		c.config["database.password"] = at.Password
	}
	_, statement, found := strings.Cut(errs.String(), "first run\n")
	if !found {
		return fmt.Errorf("skald debezium config: no publication in %q", &errs)
	}
	return execAll(ctx, c.pool, statement)
}

// run starts Kafka Connect.
func (c *connect) run(ctx context.Context) error {
	if c.cmd != nil {
		return nil
	}
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return err
	}
	c.b.later(func() error { return errors.Join(c.kill(), os.RemoveAll(dir)) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.at, c.log = "http://"+l.Addr().String(), filepath.Join(dir, "log")
	if err := l.Close(); err != nil {
		return err
	}
	worker := filepath.Join(dir, "worker.properties")
	err = os.WriteFile(worker, fmt.Appendf(nil,
		"bootstrap.servers=%s\noffset.storage.file.filename=%s\nlisteners=%s\nplugin.discovery=only_scan\noffset.flush.interval.ms=10000\n"+
			"key.converter=org.apache.kafka.connect.json.JsonConverter\nvalue.converter=org.apache.kafka.connect.json.JsonConverter\n", c.b.kafka, filepath.Join(dir, "offsets"), c.at), 0o600)
	if err != nil {
		return err
	}
	log, err := os.Create(c.log)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append(strings.Fields(connectJava), "-cp", filepath.Join(c.b.debezium, "*"),
		"org.apache.kafka.connect.cli.ConnectStandalone", worker)
	cmd := exec.CommandContext(ctx, "java", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start Kafka Connect: %w", err)
	}
	c.cmd = cmd
	return c.until(ctx, "Kafka Connect answers", func() (bool, error) {
		_, err := c.call(ctx, http.MethodGet, "/connectors", nil)
		return err == nil, nil
	})
}

func (c *connect) kill() error {
	if c.cmd == nil {
		return nil
	}
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	c.cmd = nil
	return nil
}

// dropSlots drops those of the database, which cannot go before.
func (c *connect) dropSlots(ctx context.Context) error {
	return c.until(ctx, "slots are dropped", func() (bool, error) {
		_, err := c.pool.Exec(ctx,
			"select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database() and not active")
		if err != nil {
			return false, nil // it was taken in between
		}
		var left int
		err = c.pool.QueryRow(ctx,
			"select count(*) from pg_replication_slots where database = current_database()").Scan(&left)
		return left == 0, err
	})
}

// until waits for a minute. What fails in a connector is in its status; Java's log has little without a
// logger among the jars.
func (c *connect) until(ctx context.Context, what string, so func() (bool, error)) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if ok, err := so(); ok || err != nil {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	log, _ := os.ReadFile(c.log)
	status, _ := c.call(ctx, http.MethodGet, "/connectors?expand=status", nil)
	return fmt.Errorf("not within a minute: %s\n%.4000s\n%s", what, status, log[max(0, len(log)-4000):])
}

// begin starts a connector that reads what was written behind the slot, or what will be.
func (c *connect) begin(ctx context.Context, past bool,
	more map[string]string) (end func() error, err error) {
	as := name()
	heartbeat := "__debezium-heartbeat." + as
	if _, err := c.adm.CreateTopic(ctx, 1, -1, nil, heartbeat); err != nil {
		return nil, fmt.Errorf("make topic: %w", err)
	}
	if past {
		_, err = c.pool.Exec(ctx, "select pg_copy_logical_replication_slot($1, $2)", c.past, as)
	} else {
		_, err = c.pool.Exec(ctx, "select pg_create_logical_replication_slot($1, 'pgoutput')", as)
	}
	if err != nil {
		return nil, fmt.Errorf("make slot: %w", err)
	}
	config := maps.Clone(c.config)
	config["name"], config["topic.prefix"], config["slot.name"] = as, as, as
	maps.Copy(config, more)
	if _, err := c.call(ctx, http.MethodPost, "/connectors",
		map[string]any{"name": as, "config": config}); err != nil {
		return nil, err
	}
	err = c.until(ctx, "the connector reads its slot", func() (active bool, err error) {
		err = c.pool.QueryRow(ctx, "select active from pg_replication_slots where slot_name = $1",
			as).Scan(&active)
		return active, err
	})
	return func() error {
		ctx := context.WithoutCancel(ctx)
		if _, err := c.call(ctx, http.MethodDelete, "/connectors/"+as, nil); err != nil {
			return err
		}
		err := c.until(ctx, "the connector's slot is dropped", func() (bool, error) {
			tag, err := c.pool.Exec(ctx,
				"select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1 and not active", as)
			return err == nil && tag.RowsAffected() == 1, nil
		})
		_, gone := c.adm.DeleteTopic(ctx, heartbeat)
		return errors.Join(err, gone)
	}, err
}

func (c *connect) call(ctx context.Context, method, path string, body any) (said []byte, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.at+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask Kafka Connect: %w", err)
	}
	defer res.Body.Close()
	said, err = io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %.2000s", method, path, res.Status, said)
	}
	return said, err
}

// offsets is how many records each partition has had.
func (c *connect) offsets(ctx context.Context, topic string) (by map[int32]int64, sum int64, err error) {
	listed, err := c.adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	by = map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) {
		by[o.Partition] = o.Offset
		sum += o.Offset
	})
	return by, sum, err
}
