package natsbroker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/skald-go/skald/broker/natsbroker"
)

func TestParseURL(t *testing.T) {
	none := func(string) string { return "" }
	servers, opts, err := natsbroker.ParseURL(
		"nats://one:4222,two:4222?replicas=3&retain=168h&shapes=orders:ORDERS*:orders.{type},other:O", none)
	if err != nil || opts.Shapes["orders"] != (natsbroker.Shape{Stream: "ORDERS", Subject: "orders.{type}",
		Durable: true}) || opts.Shapes["other"].Stream != "O" || servers != "one:4222,two:4222" ||
		opts.Replicas != 3 || opts.Retain != 168*time.Hour {
		t.Errorf("got %q, %+v: %v", servers, opts, err)
	}
	for _, bad := range []string{
		"nats://", "nats:", "kafka://h:1", "nats://:hush@h:4222", "nats://u:hu%zsh@h",
		"nats://h:4222?password=hush", "nats://h:4222?hush",
		"nats://h:4222?tls=maybe", "nats://h:4222?tls=off&ca=f", "nats://h:4222?cert=f",
		"nats://h:4222?user=u", "nats://h:4222?password_file=f",
		"nats://h:4222?shapes=a", "nats://h:4222?shapes=a:*", "nats://h:4222?replicas=0",
		"nats://h:4222?retain=week", "nats://h:4222?user=a&user=b", "nats://h:4222?creds=/no/such/file",
		"nats://h:4222?creds=f&user=u", "nats://h:4222?creds=f&nkey=f", "nats://h:4222?nkey=f&user=u",
		"nats://h:4222?nkey=/no/such/file", "nats://h:4222,?%zzhush", "nats://h:4222?x=%zzhush",
	} {
		if _, _, err := natsbroker.ParseURL(bad, none); err == nil ||
			strings.Contains(err.Error(), "=hush") || strings.Contains(err.Error(), ":hush") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestPassword: the name and the password of the URL open a server that asks for them, and none of the errors
// shows it.
func TestPassword(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true,
		NoLog:     true,
		JetStream: true, StoreDir: t.TempDir(), Username: "skald", Password: "hush-hush"})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(5 * time.Minute) {
		t.Fatal("NATS does not start")
	}
	file := filepath.Join(t.TempDir(), "password")
	for _, pass := range []string{"wrong-wrong", "hush-hush"} {
		if err := os.WriteFile(file, []byte(pass+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		servers, opts, err := natsbroker.ParseURL("nats://"+s.Addr().String()+"?user=skald&password_file="+
			file, os.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		b, err := natsbroker.New(servers, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err = b.MakeTopics(t.Context(), 1, "t"); (err == nil) != (pass == "hush-hush") || err != nil &&
			strings.Contains(err.Error(), pass) {
			t.Errorf("with %s: %v", pass, err)
		}
		b.Close()
	}
}
