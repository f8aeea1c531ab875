package main_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store/sqlitestore"
)

// A relay and an inbox on a cluster where nobody may do more than they need: to write the topic; to read it,
// and the group. What is missing is named, and once it is given they go on. The password is in a file, and
// nowhere else.
func TestLeastRightsOnKafka(t *testing.T) {
	t.Parallel()
	plain, at := need.GuardedKafka(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(plain))
	must(t, err)
	t.Cleanup(cl.Close)
	adm, topic := kadm.NewClient(cl), "least."+strings.ToLower(rand.Text()[:10])
	_, err = adm.CreateTopic(t.Context(), 2, 1, nil, topic)
	must(t, err)
	const password = "s3cr3t-of-least"
	writer, reader := topic+".writer", topic+".reader"
	for _, user := range []string{writer, reader} {
		done, err := adm.AlterUserSCRAMs(t.Context(), nil,
			[]kadm.UpsertSCRAM{{User: user, Mechanism: kadm.ScramSha512, Iterations: 4096,
				Password: password}})
		must(t, err)
		must(t, done.Error())
	}
	t.Cleanup(func() {
		ctx := context.Background()
		_, _ = adm.DeleteTopics(ctx, topic)
		for _, user := range []string{writer, reader} {
			_, _ = adm.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: user, Mechanism: kadm.ScramSha512}},
				nil)
			_, _ = adm.DeleteACLs(ctx, kadm.NewACLs().AnyResource().Allow("User:"+
				user).AllowHosts().Operations())
		}
	})
	allow := func(b *kadm.ACLBuilder) {
		t.Helper()
		done, err := adm.CreateACLs(t.Context(),
			b.AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral))
		must(t, err)
		for _, d := range done {
			must(t, d.Err)
		}
	}
	folder := t.TempDir()
	store, file := filepath.Join(folder, "outbox.db"), filepath.Join(folder, "password")
	must(t, os.WriteFile(file, []byte(password+"\n"), 0o600))
	as := func(user string) string {
		return "kafka://" + at.SASLTLS + "?" + url.Values{"sasl": {"scram-sha-512"}, "user": {user},
			"password_file": {file}, "ca": {filepath.Join(at.Certs, "ca.pem")}}.Encode()
	}

	start(t, nil, "migrate", "--store", "sqlite:"+store).expect(0)
	exec1(t, store, "INSERT INTO skald_outbox (topic, key, type, data) VALUES ('"+topic+
		"', 'k', 'said', '{}')")
	relay := start(t, nil, "relay", "--store", "sqlite:"+store, "--broker", as(writer))
	relay.until("the missing right",
		func() bool { return strings.Contains(relay.errs.String(), "no right to WRITE the topic") })
	allow(kadm.NewACLs().Allow("User:" + writer).Topics(topic).Operations(kadm.OpWrite))

	seeds, opts, err := kafkabroker.ParseURL(as(reader), os.Getenv)
	must(t, err)
	bus, err := kafkabroker.New(seeds, opts)
	must(t, err)
	defer bus.Close()
	allow(kadm.NewACLs().Allow("User:" + reader).Topics(topic).Operations(kadm.OpRead))
	allow(kadm.NewACLs().Allow("User:" + reader).Groups(topic + ".group").Operations(kadm.OpRead))
	db, err := sqlitestore.Open(filepath.Join(folder, "inbox.db"))
	must(t, err)
	defer db.Close()
	start(t, nil, "migrate", "--store", "sqlite:"+filepath.Join(folder, "inbox.db")).expect(0)
	var handled atomic.Int64
	in := inbox.New(sqlitestore.New(db, nil), bus, topic+".group", nil)
	inbox.On(in, skald.Event[map[string]any]{Topic: topic, Type: "said"},
		func(context.Context, *sql.Tx, skald.Received[map[string]any]) error {
			handled.Add(1)
			return nil
		})
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	relay.until("the message", func() bool { return handled.Load() == 1 })
	end()
	must(t, <-ended)

	arguments, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(relay.cmd.Process.Pid), "cmdline"))
	if err == nil && strings.Contains(string(arguments), password) {
		t.Error("the password is an argument")
	}
	relay.signal(syscall.SIGTERM)
	relay.expect(0)
	if said := relay.out.String() + relay.errs.String(); strings.Contains(said, password) {
		t.Errorf("the relay says the password:\n%s", said)
	}
}

// A wrong password is said, with whose it is not, and without it.
func TestWrongPasswordForKafka(t *testing.T) {
	t.Parallel()
	_, at := need.GuardedKafka(t)
	store := filepath.Join(t.TempDir(), "outbox.db")
	start(t, nil, "migrate", "--store", "sqlite:"+store).expect(0)
	bus := "kafka://" + at.SASL + "?sasl=scram-sha-256&user=skald-nobody"
	relay := start(t, []string{"SKALD_KAFKA_PASSWORD=s3cr3t-wrong"}, "relay", "--store", "sqlite:"+store,
		"--broker", bus)
	relay.until("the refusal",
		func() bool { return strings.Contains(relay.errs.String(), "SASL_AUTHENTICATION_FAILED") })
	relay.signal(syscall.SIGTERM)
	relay.wait()
	start(t, []string{"SKALD_KAFKA_PASSWORD=s3cr3t-wrong"}, "demo", "--broker", bus).expect(3,
		"SASL_AUTHENTICATION_FAILED")
	if strings.Contains(relay.errs.String(), "s3cr3t") {
		t.Errorf("the relay says the password:\n%s", &relay.errs)
	}
	start(t, nil, "relay", "--store", "sqlite:"+store, "--broker",
		"kafka://nobody:s3cr3t-wrong@127.0.0.1:1").expect(2, "password_file")
	p := start(t, nil, "demo", "--broker", "kafka://127.0.0.1:1?password=s3cr3t-wrong")
	p.expect(2, "password_file")
	if strings.Contains(p.errs.String(), "s3cr3t") {
		t.Errorf("the demo says the password:\n%s", &p.errs)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
