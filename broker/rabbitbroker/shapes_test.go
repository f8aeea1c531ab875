package rabbitbroker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/internal/need"
)

// team is the topology of most tutorials: a topic exchange with types as routing keys, and one queue for each
// service, bound by a pattern.
type team struct {
	ch       *amqp.Channel
	exchange string
	queues   map[string]string // by service
}

func newTeam(t *testing.T, at string, patterns map[string]string) *team {
	t.Helper()
	x := &team{ch: raw(t, at), exchange: fmt.Sprintf("events.%x", time.Now().UnixNano()),
		queues: map[string]string{}}
	if err := x.ch.ExchangeDeclare(x.exchange, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for service, pattern := range patterns {
		x.queues[service] = x.exchange + "." + service
		_, err := x.ch.QueueDeclare(x.queues[service], true, false, false, false, nil)
		if err == nil {
			err = x.ch.QueueBind(x.queues[service], pattern, x.exchange, false, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, q := range x.queues {
			_, _ = x.ch.QueueDelete(q, false, false, false)
		}
		_ = x.ch.ExchangeDelete(x.exchange, false, false)
	})
	return x
}

func (x *team) group(service string) broker.Group {
	return broker.Group{Name: x.queues[service], Topics: []string{x.exchange}}
}

// TestTopologyOfATeam: in a topology that is there already, old services and new ones publish and consume
// side by side: each queue gives each message to one of its readers, whoever wrote it.
func TestTopologyOfATeam(t *testing.T) {
	t.Parallel()
	at := need.RabbitMQ(t)
	x := newTeam(t, at, map[string]string{"billing": "orders.*.created", "audit": "#"})
	b := open(t, at, &rabbitbroker.Options{ByType: true, Bind: []string{"orders.*.created"}, Prefetch: 1})
	fresh, err := b.Subscribe(t.Context(), x.group("billing"))
	if err != nil {
		t.Fatal(err)
	}
	consumer := raw(t, at)
	if err := consumer.Qos(1, 0, false); err != nil {
		t.Fatal(err)
	}
	old, err := consumer.Consume(x.queues["billing"], "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for i := range 40 {
		id, kind := fmt.Sprint("m", i), []string{"orders.eu.created", "orders.us.created",
			"orders.eu.cancelled"}[i%3]
		if i%2 == 0 {
			confirm(t, x.ch, x.exchange, kind, amqp.Publishing{MessageId: id, Type: kind,
				ContentType: "application/json", Body: []byte(`{}`)})
		} else if err := b.Publish(t.Context(), []skald.Message{{ID: id, Source: "/s", Type: kind,
			Topic: x.exchange, Key: []byte("k"), Data: []byte(`{}`)}}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		want[id] = kind != "orders.eu.cancelled"
	}
	maps.DeleteFunc(want, func(_ string, billed bool) bool { return !billed })
	byOld, byNew := map[string]bool{}, map[string]bool{}
	until(t, "what billing is to hear", func() bool {
		select {
		case d := <-old:
			if d.RoutingKey != d.Type || want[d.MessageId] == false || byNew[d.MessageId] ||
				d.Ack(false) != nil {
				t.Errorf("the old service got %s under %s", d.MessageId, d.RoutingKey)
			}
			byOld[d.MessageId] = true
		case <-fresh.Ready():
			got, err := fresh.Receive(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range got.Deliveries {
				if !want[d.ID] || byOld[d.ID] || d.Topic != x.exchange || d.Fault != nil {
					t.Errorf("the new service got %+v", d)
				}
				byNew[d.ID] = true
			}
			if err := fresh.Ack(t.Context(), got.Deliveries); err != nil {
				t.Fatal(err)
			}
		default:
		}
		return len(byOld)+len(byNew) == len(want)
	})
	if len(byOld) == 0 || len(byNew) == 0 {
		t.Errorf("the old service got %d, the new one %d", len(byOld), len(byNew))
	}
	if q, err := x.ch.QueueDeclarePassive(x.queues["audit"], true, false, false, false, nil); err != nil ||
		q.Messages != 40 {
		t.Errorf("audit has %d: %v", q.Messages, err)
	}
}

// TestUnrouted: a type that no queue is bound for is refused, or, where that is meant, dropped. The service's
// own queue is made and bound on request.
func TestUnrouted(t *testing.T) {
	t.Parallel()
	at := need.RabbitMQ(t)
	x := newTeam(t, at, map[string]string{"audit": "audited.*"})
	m := skald.Message{ID: "1", Source: "/s", Type: "orders.eu.created", Topic: x.exchange, Data: []byte("d")}
	strict := open(t, at, &rabbitbroker.Options{ByType: true, Bind: []string{"orders.#"}})
	if err := strict.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); !errors.Is(err,
		broker.ErrNoTopic) {
		t.Errorf("nobody is bound for it: %v", err)
	}
	lax := open(t, at, &rabbitbroker.Options{ByType: true, DropUnrouted: true})
	if err := lax.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); err != nil {
		t.Error(err)
	}
	x.queues["new"] = x.exchange + ".new"
	s, err := strict.Subscribe(t.Context(), x.group("new"))
	if err != nil {
		t.Fatal(err)
	}
	if err := strict.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	take(t, s, 1)
}

// TestPlainQueue: several instances on one queue that exists get each message once, without order; one that
// leaves gives back what it had.
func TestPlainQueue(t *testing.T) {
	t.Parallel()
	at := need.RabbitMQ(t)
	x := newTeam(t, at, map[string]string{"work": "#"})
	opts := &rabbitbroker.Options{Queue: x.queues["work"], Prefetch: 5}
	one, two := open(t, at, opts), open(t, at, opts)
	g := broker.Group{Name: "any", Topics: []string{"work"}}
	a, err := one.Subscribe(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		confirm(t, x.ch, "", x.queues["work"], amqp.Publishing{MessageId: fmt.Sprint(i), Body: []byte("d")})
	}
	take(t, a, 5) // and acknowledges nothing
	b, err := two.Subscribe(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for len(seen) < 20 {
		ds := take(t, b, 1)
		for _, d := range ds {
			if seen[d.ID] || d.Topic != "work" {
				t.Errorf("%s came again, or by %s", d.ID, d.Topic)
			}
			seen[d.ID] = true
		}
		if err := b.Ack(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
	}
	opts = &rabbitbroker.Options{Queue: "no." + x.exchange}
	if _, err := open(t, at, opts).Subscribe(t.Context(), g); err == nil ||
		!strings.Contains(err.Error(), opts.Queue) {
		t.Errorf("a queue that is missing: %v", err)
	}
	if missing, err := open(t, at, opts).CheckTopics(t.Context()); err != nil || len(missing) != 1 ||
		!strings.Contains(missing[0], opts.Queue) {
		t.Errorf("looked for beforehand it is %q: %v", missing, err)
	}
}

// TestPeerReadsWhatWeWrite: a plain client finds the event in AMQP's own fields, and the envelope in headers.
func TestPeerReadsWhatWeWrite(t *testing.T) {
	t.Parallel()
	at := need.RabbitMQ(t)
	p := newPlace(t, at, nil, 1)
	if err := p.Declare(t.Context(), p.group("g")); err != nil {
		t.Fatal(err)
	}
	p.made.groups[p.group("g").Name] = true
	when := time.Date(2026, 11, 21, 10, 20, 30, 123456000, time.UTC)
	p.publish(skald.Message{ID: "i", Source: "/s", Type: "order.placed", Topic: p.topic, Key: []byte("k"),
		Time: when, Subject: "s", CorrelationID: "c", CausationID: "a",
		ContentType: "application/json", Schema: "x", Sequence: "7", TraceParent: "tp",
		Headers: []skald.Header{{Name: "mine", Value: []byte{0xff, 0}}}, Data: []byte(`{"n":1}`)})
	in, err := raw(t, at).Consume(rabbitbroker.Queue(p.group("g").Name, p.topic, 0), "", true, false,
		false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := <-in
	if d.MessageId != "i" || d.Type != "order.placed" || d.CorrelationId != "c" ||
		d.ContentType != "application/json" || d.DeliveryMode != amqp.Persistent ||
		!d.Timestamp.Equal(when.Truncate(time.Second)) || d.RoutingKey != "0.order.placed" ||
		string(d.Body) != `{"n":1}` {
		t.Errorf("fields: %+v", d)
	}
	want := amqp.Table{"cloudEvents_specversion": "1.0", "cloudEvents_id": "i", "cloudEvents_source": "/s",
		"cloudEvents_type": "order.placed", "cloudEvents_partitionkey": "k",
		"cloudEvents_time": "2026-11-21T10:20:30.123456Z", "cloudEvents_subject": "s",
		"cloudEvents_correlationid": "c", "cloudEvents_causationid": "a",
		"cloudEvents_dataschema": "x", "cloudEvents_sequence": "7", "cloudEvents_traceparent": "tp",
		"mine": "\xff\x00"}
	if !maps.Equal(want, d.Headers) {
		t.Errorf("headers: %q", d.Headers)
	}
}

// TestWeReadWhatThePeerWrites: a message of a client that knows nothing of CloudEvents is taken byte for
// byte, with headers of every type that AMQP has; one that does is taken in either spelling.
func TestWeReadWhatThePeerWrites(t *testing.T) {
	t.Parallel()
	at := need.RabbitMQ(t)
	p := newPlace(t, at, nil, 1)
	s := p.join("g")
	ch := raw(t, at)
	when := time.Unix(1_800_000_000, 0).UTC()
	confirm(t, ch, p.topic, "0.x", amqp.Publishing{Body: []byte{0, 0xff}, Headers: amqp.Table{
		"bool": true, "int": int32(-7), "long": int64(1 << 40), "float": 1.5, "bytes": []byte{0, 0xff},
		"nil": nil, "time": when,
		"table": amqp.Table{"a": int32(1)}, "list": []any{"a", int32(1)}, "text": "ä"}})
	confirm(t, ch, p.topic, "0.x", amqp.Publishing{MessageId: "m", Type: "kind", CorrelationId: "c",
		Timestamp: when, ContentType: "text/plain", Body: []byte("b")})
	confirm(t, ch, p.topic, "0.x", amqp.Publishing{MessageId: "another",
		Headers: amqp.Table{"cloudEvents:specversion": "1.0", "cloudEvents:id": "i",
			"cloudEvents:source": "/s", "cloudEvents:type": "t"}})
	got := take(t, s, 3)
	if got[0].Type != "x" {
		t.Errorf("the type of a message without one: %q, want that of its routing key", got[0].Type)
	}
	headers := map[string]string{}
	for _, h := range got[0].Headers {
		headers[h.Name] = string(h.Value)
	}
	want := map[string]string{"bool": "true", "int": "-7", "long": "1099511627776", "float": "1.5",
		"bytes": "\x00\xff", "nil": "", "time": "2027-01-15T08:00:00Z",
		"table": `{"a":1}`, "list": `["a",1]`, "text": "ä"}
	if d := got[0]; !maps.Equal(headers, want) || !bytes.Equal(d.Data, []byte{0, 0xff}) || d.ID != "" ||
		d.Key != nil || d.Fault != nil {
		t.Errorf("got %q of %+v", headers, d)
	}
	if d := got[1]; d.ID != "m" || d.Type != "kind" || d.CorrelationID != "c" || !d.Time.Equal(when) ||
		d.ContentType != "text/plain" || d.Fault != nil {
		t.Errorf("got %+v", d)
	}
	if d := got[2]; d.ID != "i" || d.Source != "/s" || d.Type != "t" || len(d.Headers) > 0 || d.Fault != nil {
		t.Errorf("got %+v", d)
	}
}

// TestWaysIn: TLS, a user with a password, a certificate that is a user; what is wrong is said, without the
// secret, and is no outage.
func TestWaysIn(t *testing.T) {
	t.Parallel()
	secure, certs := need.SecureRabbitMQ(t)
	plain, ctl := need.RabbitMQ(t), need.RabbitMQCtl(t)
	name := fmt.Sprintf("user%x", time.Now().UnixNano())
	ctl("add_user", name, "hush")
	t.Cleanup(func() { ctl("delete_user", name) })
	ctl("set_permissions", name, ".*", ".*", ".*")
	if users := ctl("-q", "list_users"); !strings.Contains(users, "skald-client") {
		ctl("add_user", "skald-client", "never-used")
		ctl("set_permissions", "skald-client", ".*", ".*", ".*")
	}
	env := map[string]string{"SKALD_RABBITMQ_PASSWORD": "hush"}
	try := func(url string) error {
		servers, opts, err := rabbitbroker.ParseURL(url, func(v string) string { return env[v] })
		if err != nil {
			return err
		}
		b, err := rabbitbroker.New(servers, opts)
		if err != nil {
			return err
		}
		defer b.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		return b.MakeTopics(ctx, 1)
	}
	ca, cert := "ca="+certs+"/ca.pem", "&cert="+certs+"/client.crt&key="+certs+"/client.key"
	for _, url := range []string{plain, plain + "/?user=" + name, secure + "?" + ca, secure + "?" + ca +
		"&user=" + name, secure + "?" + ca + cert + "&auth=external"} {
		if err := try(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	env["SKALD_RABBITMQ_PASSWORD"] = "wrong-hush"
	for url, want := range map[string]string{
		plain + "/?user=" + name:                 "403",
		plain + "/nowhere?":                      "nowhere",
		secure:                                   "certificate",
		secure + "?" + ca + "&auth=external":     "cert and key",
		plain + "/?password=hush":                "password_file",
		"amqp://u:hush@h:1?user=v":               "in front of the host",
		"amqps://h:1?tls=off":                    "tls=off",
		"amqp://h:1?topology=guess":              "declare or check",
		"amqp://h:1?bind=x":                      "route=type",
		"amqp://h:1?queue=q&route=type":          "queue",
		"amqp://h:1?prefetch=0":                  "65535",
		"amqp://h:1?unrouted=lose":               "refuse or drop",
		"amqp://h:1/%zz":                         "virtual host",
		"amqp://h:1?route=sideways&prefetch=100": "partition or type",
	} {
		if err := try(url); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hush") || errors.Is(err,
			broker.ErrUnavailable) != (url == secure) {
			t.Errorf("%s: %v", url, err)
		}
	}
	servers, opts, err := rabbitbroker.ParseURL(
		"amqps://a:1,b:2/a%2Fb?user=u&topology=check&route=type&bind=x.*,y&unrouted=drop&prefetch=7",
		func(v string) string { return env[v] })
	if err != nil || servers != "a:1,b:2" || opts.VHost != "a/b" || opts.User != "u" || !opts.CheckOnly ||
		!opts.ByType || !slices.Equal(opts.Bind, []string{"x.*", "y"}) || !opts.DropUnrouted ||
		opts.Prefetch != 7 || opts.TLS == nil {
		t.Errorf("%s %+v: %v", servers, opts, err)
	}
}

// TestTypeFromTheRoutingKey: a publisher that sets no type says by its routing key what a message is. A type
// of its own stays, and the handler learns the routing key.
func TestTypeFromTheRoutingKey(t *testing.T) {
	t.Parallel()
	at := need.RabbitMQ(t)
	x := newTeam(t, at, nil)
	x.queues["billing"] = x.exchange + ".billing"
	b := open(t, at, &rabbitbroker.Options{ByType: true, Bind: []string{"created", "orders.*.paid"}})
	s, err := b.Subscribe(t.Context(), x.group("billing"))
	if err != nil {
		t.Fatal(err)
	}
	confirm(t, x.ch, x.exchange, "created", amqp.Publishing{MessageId: "1", Body: []byte("{}")})
	confirm(t, x.ch, x.exchange, "orders.eu.paid", amqp.Publishing{MessageId: "2", Body: []byte("{}")})
	confirm(t, x.ch, x.exchange, "orders.eu.paid", amqp.Publishing{MessageId: "3", Type: "order",
		Headers: amqp.Table{broker.RouteHeader: "forged"}, Body: []byte("{}")})
	confirm(t, x.ch, x.exchange, "created", amqp.Publishing{MessageId: "4", Type: "order", Body: []byte("{}")})
	if err := b.Publish(t.Context(), []skald.Message{{ID: "5", Source: "/s", Type: "created",
		Topic: x.exchange, Data: []byte("{}")}}).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range take(t, s, 5) {
		got = append(got, fmt.Sprintf("%s %s %s", d.ID, d.Type, d.Headers))
	}
	slices.Sort(got)
	if want := []string{"1 created []", "2 orders.eu.paid []", "3 order [{x-route orders.eu.paid}]",
		"4 order [{x-route created}]", "5 created []"}; !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
}
