package main_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/internal/need"
)

// Faults in the shop, and a RabbitMQ that is killed and comes back twice: every promise is kept. What the
// demo made can be removed, and nothing of it is left.
func TestDemoOnRabbitMQThatRestarts(t *testing.T) {
	need.Nightly(t, "rabbitbroker TestRestart and TestDemoOnForeignRabbitMQ stay")
	t.Parallel()
	at, restart := need.OwnRabbitMQ(t)
	dir := filepath.Join(t.TempDir(), "demo")
	where := []string{"--dir", dir, "--broker", at}
	args := append([]string{"demo", "--orders", "150", "--faults", "wild", "--json"}, where...)
	p := start(t, nil, args...)
	for _, n := range []int{10, 60} {
		p.until("orders", func() bool {
			return number(t.Context(), filepath.Join(dir, "order.db"), "SELECT count(*) FROM orders") > n
		})
		restart()
	}
	p.expect(0)
	if o := p.outcome(); !o.OK || o.Orders.Placed != 150 {
		t.Errorf("%s", &p.out)
	}
	start(t, nil, args...).expect(0) // the verdict again, of the same run at the same RabbitMQ
	start(t, nil, append([]string{"demo", "remove", "--yes"}, where...)...).expect(0)
	for _, name := range []string{"skald/skald_demo.orders", "skald_demo.payment/skald_demo.orders/0"} {
		if err := onRabbitMQ(t, at, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			return err
		}); err == nil {
			t.Errorf("the queue %s is left", name)
		}
	}
	if err := onRabbitMQ(t, at, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive("skald_demo.orders", "topic", true, false, false, false, nil)
	}); err == nil {
		t.Error("the exchange skald_demo.orders is left")
	}
}

func onRabbitMQ(t *testing.T, at string, do func(*amqp.Channel) error) error {
	t.Helper()
	conn, err := amqp.Dial(at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return do(ch)
}

// Topics that the run did not make are left alone; a RabbitMQ that is away, a wrong password and a password
// in the URL are told as such.
func TestDemoOnForeignRabbitMQ(t *testing.T) {
	t.Parallel()
	at, prefix := need.RabbitMQ(t), fmt.Sprintf("p%x", time.Now().UnixNano())
	where := []string{"--dir", filepath.Join(t.TempDir(), "demo"), "--prefix", prefix, "--broker", at}
	start(t, nil, append([]string{"demo", "--orders", "5", "--faults", "none"}, where...)...).expect(0)
	start(t, nil, "demo", "--orders", "5", "--faults", "none", "--prefix", prefix, "--broker", at).expect(5,
		prefix+".orders", "--prefix")
	start(t, nil, append([]string{"demo", "remove", "--yes"}, where...)...).expect(0)
	start(t, nil, "demo", "--orders", "5", "--broker", "amqp://127.0.0.1:1").expect(6)
	start(t, nil, "relay", "--store", "sqlite:"+filepath.Join(t.TempDir(), "x.db"), "--broker",
		"amqp://u:hush@h:1?user=v").expect(2, "in front of the host")
	wrong := start(t, []string{"SKALD_RABBITMQ_PASSWORD=hush"}, "demo", "--orders", "5", "--broker",
		at+"?user=nobody")
	wrong.expect(3, "not allowed")
}
