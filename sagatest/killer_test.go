package sagatest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

const (
	mortalFile  = "SKALD_TEST_MORTAL_FILE" // set in a process of TestKillerEndsRealProcesses
	mortalTopic = "SKALD_TEST_MORTAL_TOPIC"
	innocents   = 12
)

// TestMortalProcess is not a test, but the program of TestKillerEndsRealProcesses: a consumer on SQLite and
// Kafka. One message makes a goroutine of its handler panic, which cannot be recovered.
func TestMortalProcess(t *testing.T) {
	file, topic := os.Getenv(mortalFile), os.Getenv(mortalTopic)
	if file == "" {
		t.Skip("a program of another test")
	}
	ctx, done := context.WithTimeout(t.Context(), 5*time.Minute)
	defer done()
	db, err := sqlitestore.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	bus, err := kafkabroker.New(need.Kafka(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	d := sqlitestore.New(db, nil)
	in := inbox.New(d, bus, topic, &inbox.Options{Instance: inbox.Instance{Member: "one"},
		Retry: inbox.Retry{InitialInterval: 10 * time.Millisecond}})
	in.Handle(topic, "said", func(ctx context.Context, tx *sql.Tx, m skald.Message) error {
		if string(m.Data) == `"killer"` {
			go func() { panic("nobody recovers this") }()
			<-ctx.Done()
			return ctx.Err()
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO effect (id) VALUES (?1)", m.ID)
		return err
	})
	go func() {
		defer done()
		for ctx.Err() == nil {
			var n int
			dead, err := d.Status(ctx, store.StatusQuery{ParkedOf: topic})
			if err == nil {
				err = db.QueryRowContext(ctx, "SELECT count(*) FROM effect").Scan(&n)
			}
			if err == nil && dead.Parked.Dead == 1 && n == innocents {
				return
			}
			<-time.After(50 * time.Millisecond)
		}
	}()
	if err := in.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestKillerEndsRealProcesses: one message crashes real processes, from a goroutine whose panic cannot be
// recovered. The message becomes a dead letter after six crashes, and all others take effect once.
// Interleaving 12.
func TestKillerEndsRealProcesses(t *testing.T) {
	seeds := need.Kafka(t)
	bus, err := kafkabroker.New(seeds, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	topic := fmt.Sprintf("killer.%x", time.Now().UnixNano())
	if err := bus.MakeTopics(t.Context(), 3, topic); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(seeds, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	defer func() {
		_, _ = kadm.NewClient(client).DeleteTopics(context.Background(), topic)
		_, _ = kadm.NewClient(client).DeleteGroups(context.Background(), topic)
	}()
	file := filepath.Join(t.TempDir(), "consumer.db")
	db, err := sqlitestore.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := sqlitestore.Migrate(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE effect (id TEXT)"); err != nil {
		t.Fatal(err)
	}
	var ms []skald.Message
	for i := range innocents {
		ms = append(ms, skald.Message{ID: fmt.Sprint("m-", i), Source: "/other", Topic: topic, Type: "said",
			Key: fmt.Append(nil, "k", i%5), Data: []byte(`"good"`)})
	}
	killer := skald.Message{ID: "killer", Source: "/other", Topic: topic, Type: "said", Key: []byte("bad"),
		Data: []byte(`"killer"`)}
	ms = append(ms[:6:6], append([]skald.Message{killer}, ms[6:]...)...)
	if err := bus.Publish(t.Context(), ms).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	deaths := 0
	for ; ; deaths++ {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMortalProcess$", "-test.count=1")
		c.Env = append(os.Environ(), mortalFile+"="+file, mortalTopic+"="+topic)
		out, err := c.CombinedOutput()
		if err == nil {
			break
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(string(out), "nobody recovers this") || deaths > 8 {
			t.Fatalf("session %d: %v\n%s", deaths+1, err, out)
		}
	}
	dead := true
	kept, err := store.ListParked(t.Context(), sqlitestore.New(db, nil),
		store.ParkedQuery{Consumer: topic, Dead: &dead, Limit: 10})
	if err != nil || len(kept) != 1 || kept[0].ID != "killer" || kept[0].Dead.Kind != string(failure.Crash) {
		t.Fatalf("dead: %+v, %v", kept, err)
	}
	if deaths != 6 {
		t.Errorf("it crashed %d processes, want 6", deaths)
	}
	var all, different int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*), count(DISTINCT id) FROM effect").Scan(&all,
		&different); err != nil || all != innocents || different != innocents {
		t.Errorf("%d effects, %d different, of %d: %v", all, different, innocents, err)
	}
}
