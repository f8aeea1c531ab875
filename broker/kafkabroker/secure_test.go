package kafkabroker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/internal/need"
)

const secret = "s3cret-of-nobody"

// guarded is a Kafka that checks rights, with the topics and groups of a test.
type guarded struct {
	t *testing.T
	need.Guarded
	adm      *kadm.Client
	topic    string
	group    string
	user     string
	password string // a file
	patience time.Duration
}

func newGuarded(t *testing.T) *guarded {
	plain, listeners := need.GuardedKafka(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(plain))
	must(t, err)
	t.Cleanup(cl.Close)
	name := fmt.Sprintf("guarded.%x", time.Now().UnixNano())
	g := &guarded{t: t, Guarded: listeners, adm: kadm.NewClient(cl), topic: name, group: name + ".group",
		user: name + ".user", patience: 10 * time.Second}
	g.password = filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(g.password, []byte(secret+"\n"), 0o600))
	created, err := g.adm.CreateTopics(t.Context(), 2, 1, nil, name)
	must(t, err)
	must(t, created.Error())
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		done, err := g.adm.AlterUserSCRAMs(t.Context(), nil,
			[]kadm.UpsertSCRAM{{User: g.user, Mechanism: mechanism, Iterations: 4096, Password: secret}})
		must(t, err)
		must(t, done.Error())
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, _ = g.adm.DeleteTopics(ctx, name)
		_, _ = g.adm.DeleteACLs(ctx, kadm.NewACLs().AnyResource().Allow("User:"+
			g.user).AllowHosts().Operations())
		_, _ = g.adm.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: g.user, Mechanism: kadm.ScramSha256},
			{User: g.user, Mechanism: kadm.ScramSha512}}, nil)
	})
	return g
}

// allow gives the user the right to each operation on "topic" or "group".
func (g *guarded) allow(what string, ops ...kadm.ACLOperation) {
	g.t.Helper()
	acl := kadm.NewACLs().Allow("User:" +
		g.user).AllowHosts("*").Operations(ops...).ResourcePatternType(kadm.ACLPatternLiteral)
	if what == "topic" {
		acl = acl.Topics(g.topic)
	} else {
		acl = acl.Groups(g.group)
	}
	done, err := g.adm.CreateACLs(g.t.Context(), acl)
	must(g.t, err)
	for _, d := range done {
		must(g.t, d.Err)
	}
}

func (g *guarded) open(url string, env map[string]string) *kafkabroker.Broker {
	g.t.Helper()
	seeds, opts, err := kafkabroker.ParseURL(url, func(name string) string { return env[name] })
	must(g.t, err)
	opts.Patience = g.patience
	return open(g.t, seeds, opts)
}

func (g *guarded) message(id string) []skald.Message {
	return []skald.Message{{ID: id, Source: "s", Type: "t", Topic: g.topic, Key: []byte("k"),
		Data: []byte("{}")}}
}

// TestWaysIn: each listener and mechanism takes a message and gives it back, with the least rights there are:
// to write, to read, and the group.
func TestWaysIn(t *testing.T) {
	g := newGuarded(t)
	g.patience = 5 * time.Minute // nothing is refused
	g.allow("topic", kadm.OpRead, kadm.OpWrite)
	g.allow("group", kadm.OpRead)
	ca, pair := filepath.Join(g.Certs, "ca.pem"), fmt.Sprintf("&cert=%s&key=%s",
		filepath.Join(g.Certs, "client.crt"), filepath.Join(g.Certs, "client.key"))
	scram := fmt.Sprintf("user=%s&password_file=%s", g.user, g.password)
	environment := map[string]string{"SKALD_KAFKA_USER": g.user, "SKALD_KAFKA_PASSWORD": secret}
	for _, way := range []struct {
		name, url string
		env       map[string]string
		certified bool
	}{
		{name: "TLS with a client's certificate", url: "kafka://" + g.TLS + "?ca=" + ca + pair,
			certified: true},
		{name: "SCRAM-SHA-512 in the open", url: "kafka://" + g.SASL + "?sasl=scram-sha-512&" + scram},
		{name: "SCRAM-SHA-256 over TLS", url: "kafka://" + g.SASLTLS + "?sasl=scram-sha-256&ca=" + ca +
			"&" + scram},
		{name: "SCRAM-SHA-512 over TLS, from the environment", url: "kafka://" + g.SASLTLS +
			"?sasl=scram-sha-512&tls=on&ca=" + ca, env: environment},
		{name: "PLAIN over TLS", url: "kafka://" + g.SASLTLS + "?sasl=plain&ca=" + ca,
			env: map[string]string{"SKALD_KAFKA_USER": "skald", "SKALD_KAFKA_PASSWORD": "plain-secret"}},
		{name: "PLAIN in the open, as is said", url: "kafka://" + g.SASL + "?sasl=plain&tls=off",
			env: map[string]string{"SKALD_KAFKA_USER": "skald", "SKALD_KAFKA_PASSWORD": "plain-secret"}},
	} {
		t.Run(way.name, func(t *testing.T) {
			if way.certified {
				g := *g
				g.user = "CN=skald-client"
				g.allow("topic", kadm.OpRead, kadm.OpWrite)
				g.allow("group", kadm.OpRead)
			}
			b := g.open(way.url, way.env)
			must(t, b.Publish(t.Context(), g.message(way.name)).Wait(t.Context()))
			if id, err := b.Incarnation(t.Context()); err != nil || id == "" {
				t.Errorf("incarnation %q, %v", id, err)
			}
			sub, err := b.Subscribe(t.Context(), broker.Group{Name: g.group, Topics: []string{g.topic}})
			must(t, err)
			got := take(t, sub, 1)
			if got[0].ID != way.name {
				t.Errorf("got %q", got[0].ID)
			}
			must(t, sub.Ack(t.Context(), got))
			must(t, sub.Close(t.Context()))
		})
	}
}

// TestMissingRights: what is missing is named, nothing waits for ever, and it goes on once the right is
// there.
func TestMissingRights(t *testing.T) {
	g := newGuarded(t)
	b := g.open(fmt.Sprintf("kafka://%s?sasl=scram-sha-512&user=%s&password_file=%s", g.SASL, g.user,
		g.password), nil)
	// answered tries act again while Kafka only does not answer in time: an outage tells nothing about
	// rights.
	answered := func(act func() error) (err error) {
		t.Helper()
		until(t, "an answer", func() bool { err = act(); return !errors.Is(err, broker.ErrUnavailable) })
		return err
	}
	publish := func() error {
		return answered(func() error { return b.Publish(t.Context(), g.message("m")).Wait(t.Context()) })
	}
	var pe *broker.PublishError
	err := publish()
	if !errors.As(err, &pe) || len(pe.Refused) != 1 {
		t.Fatalf("publish without a right: %v", err)
	}
	names(t, err, "WRITE", g.topic)
	g.allow("topic", kadm.OpDescribe)
	until(t, "the right to describe",
		func() bool { err = publish(); return !errors.Is(err, broker.ErrNoTopic) })
	names(t, err, "WRITE", g.topic)
	g.allow("topic", kadm.OpWrite)
	until(t, "the right to write", func() bool { err = publish(); t.Log(err); return err == nil })

	group := broker.Group{Name: g.group, Topics: []string{g.topic}}
	attempt := func() (err error) {
		sub, err := b.Subscribe(t.Context(), group)
		if err != nil {
			return err
		}
		defer func() { must(t, sub.Close(t.Context())) }()
		deadline := time.Now().Add(5 * time.Minute)
		for time.Now().Before(deadline) {
			if _, err := sub.Receive(t.Context(), 1); err != nil {
				return err
			}
			select {
			case <-sub.Ready():
			case <-time.After(50 * time.Millisecond):
			}
		}
		return nil
	}
	refusal := func() error { return answered(attempt) }
	var topic *broker.TopicError
	if _, err = b.Subscribe(t.Context(), group); !errors.As(err, &topic) || topic.Topic != g.topic {
		t.Errorf("subscribed without the right to read: %v", err)
	}
	names(t, err, "READ", g.topic)
	names(t, b.CheckReading(t.Context(), g.topic), "READ", g.topic)
	g.allow("topic", kadm.OpRead)
	until(t, "the right to the topic", func() bool { err = refusal(); return !errors.As(err, &topic) })
	until(t, "the right is seen", func() bool { return b.CheckReading(t.Context(), g.topic) == nil })
	names(t, err, "READ", "group", g.group)
	g.allow("group", kadm.OpRead)
	sub, err := b.Subscribe(t.Context(), group)
	must(t, err)
	until(t, "the message",
		func() bool { got, _ := sub.Receive(t.Context(), 1); return len(got.Deliveries) == 1 })
	names(t, answered(func() error { return b.MakeTopics(t.Context(), 1, g.topic+".new") }), "CREATE",
		g.topic+".new")
}

// TestWrongSecret: the error says who is refused, and by whom, and not with what.
func TestWrongSecret(t *testing.T) {
	g := newGuarded(t)
	env := map[string]string{"SKALD_KAFKA_USER": g.user, "SKALD_KAFKA_PASSWORD": "wr0ng-s3cret"}
	ca := filepath.Join(g.Certs, "ca.pem")
	for name, url := range map[string]string{
		"scram": "kafka://" + g.SASL + "?sasl=scram-sha-512",
		"plain": "kafka://" + g.SASLTLS + "?sasl=plain&ca=" + ca,
	} {
		b := g.open(url, env)
		_, incarnation := b.Incarnation(t.Context())
		_, subscribe := b.Subscribe(t.Context(), broker.Group{Name: g.group, Topics: []string{g.topic}})
		for act, err := range map[string]error{
			"incarnation": incarnation, "subscribe": subscribe,
			"publish": b.Publish(t.Context(), g.message("m")).Wait(t.Context()),
		} {
			if err == nil || strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("%s, %s: %v", name, act, err)
			}
			names(t, err, "SASL_AUTHENTICATION_FAILED")
		}
	}
	b := g.open("kafka://"+g.TLS+"?tls=on", nil) // its authority is not the system's
	_, err := b.Incarnation(t.Context())
	names(t, err, "certificate signed by unknown authority")
}

func names(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%v\n\tdoes not name %s", err, w)
		}
	}
}
