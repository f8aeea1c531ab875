package bridges_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/internal/need"
)

// bus is a driver as both suites need it.
type bus interface {
	broker.Broker
	broker.TopicMaker
}

// A kind of broker that the suites run on.
type kind struct {
	name string
	// open finds the server and says how clients of it are made; they are closed with their test.
	open func(t *testing.T) func(t *testing.T) bus
	// own starts a server of the test's own, and says what kills it and starts it again. Nil: there is none to be killed.
	own func(t *testing.T) (client func(t *testing.T) bus, restart []string)
}

func kinds() []kind {
	return []kind{
		{"memory", memory, nil},
		{"kafka", sharedKafka, ownKafka},
		{"nats", func(t *testing.T) func(*testing.T) bus { return nats(newChild(t).addr) }, ownNATS},
	}
}

func closing(t *testing.T, b bus, err error) bus {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	return b
}

func memory(*testing.T) func(*testing.T) bus {
	first := membroker.New(nil)
	return func(t *testing.T) bus { return closing(t, first.Client(), nil) }
}

func kafka(seeds string) func(*testing.T) bus {
	return func(t *testing.T) bus {
		b, err := kafkabroker.New(seeds, nil)
		return closing(t, b, err)
	}
}

// sharedKafka is one that others use, too: the topics that were made there are removed.
func sharedKafka(t *testing.T) func(*testing.T) bus {
	seeds := need.Kafka(t)
	var mu sync.Mutex
	var made []string
	t.Cleanup(func() {
		cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(seeds, ",")...))
		if err == nil {
			_, err = kadm.NewClient(cl).DeleteTopics(context.Background(), made...)
			cl.Close()
		}
		if err != nil {
			t.Errorf("remove topics: %v", err)
		}
	})
	open := kafka(seeds)
	return func(t *testing.T) bus {
		return &noting{open(t), func(topics []string) {
			mu.Lock()
			defer mu.Unlock()
			made = append(made, topics...)
		}}
	}
}

// noting tells which topics are made.
type noting struct {
	bus
	note func([]string)
}

func (n *noting) MakeTopics(ctx context.Context, lanes int, topics ...string) error {
	n.note(topics)
	return n.bus.MakeTopics(ctx, lanes, topics...)
}

func nats(addr string) func(*testing.T) bus {
	return func(t *testing.T) bus {
		b, err := natsbroker.New(addr, nil)
		return closing(t, b, err)
	}
}

// ownKafka is one of scripts/services, in a folder of its own.
func ownKafka(t *testing.T) (func(*testing.T) bus, []string) {
	need.Kafka(t) // where there is one, another can be started
	dir := t.TempDir()
	script := []string{"env", "-u", "SKALD_TEST_KAFKA", "SKALD_SERVICES_DIR=" + dir, "../scripts/services"}
	run := func(args ...string) {
		t.Helper()
		all := append(script[1:len(script):len(script)], args...)
		if out, err := exec.Command(script[0], all...).CombinedOutput(); err != nil {
			t.Fatalf("scripts/services %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	t.Cleanup(func() { run("down", "kafka") })
	run("up", "kafka")
	port, err := os.ReadFile(filepath.Join(dir, "kafka.port"))
	if err != nil {
		t.Fatal(err)
	}
	return kafka("127.0.0.1:" + strings.TrimSpace(string(port))), append(script, "restart", "kafka")
}

func ownNATS(t *testing.T) (func(*testing.T) bus, []string) {
	c := newChild(t)
	return nats(c.addr), c.restart(t)
}

// What this program does instead of testing.
const (
	role     = "SKALD_BRIDGES_ROLE"
	asNATS   = "nats"    // be a NATS
	asCaller = "restart" // have one restarted
)

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case asNATS:
		fatal(beNATS(os.Args[1], os.Args[2]))
	case asCaller:
		fatal(callRestart(os.Args[1]))
	default:
		// The suites wait more than they work. A -parallel of the caller's wins.
		fatal(flag.Set("test.parallel", "16"))
		os.Exit(m.Run())
	}
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// beNATS serves until it is killed, or its parent is gone. It writes to disk before it answers.
func beNATS(addr, dir string) error {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: at.Port, JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true, NoLog: true,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 4 << 30,
	})
	if err != nil {
		return err
	}
	go s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return fmt.Errorf("NATS does not start on %s", addr)
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // ends with the parent
	s.Shutdown()
	return nil
}

// A child is a NATS in a process of its own.
type child struct {
	addr, dir string
	mu        sync.Mutex
	cmd       *exec.Cmd
}

func newChild(t *testing.T) *child {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &child{addr: l.Addr().String(), dir: t.TempDir()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

func (c *child) start() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	c.cmd = exec.Command(exe, c.addr, c.dir)
	c.cmd.Env = append(os.Environ(), role+"="+asNATS)
	c.cmd.Stderr = os.Stderr
	if _, err := c.cmd.StdinPipe(); err != nil { // held open as long as we live
		return err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		return fmt.Errorf("start NATS: it said %q: %w", line, err)
	}
	return nil
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// restart is a command that has the child killed and started again on its files.
func (c *child) restart(t *testing.T) []string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			c.kill()
			if err := c.start(); err != nil {
				fmt.Fprintln(conn, err)
			} else {
				fmt.Fprintln(conn, "restarted")
			}
			c.mu.Unlock()
			conn.Close()
		}
	}()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"env", role + "=" + asCaller, exe, l.Addr().String()}
}

func callRestart(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "restarted\n" {
		return fmt.Errorf("restart NATS: %q: %w", line, err)
	}
	return nil
}
