package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/status"
)

// Order and Payment are programs of their own. The status of an order names the message that is parked at
// Payment and the command for it; when that program has ended, Payment is named as silent.
func TestStatusAsksAnotherProgram(t *testing.T) {
	broker, folder := natsURL(t), filepath.Join(t.TempDir(), "till")
	till, end := program(t, "answers: ", "payment", "--store", "sqlite:"+folder, "--broker", broker,
		"--answer", "127.0.0.1:0")
	orders, endOrders := program(t, "orders: ", "order", "--store", "sqlite:"+t.TempDir(), "--broker", broker,
		"--listen", "127.0.0.1:0",
		"--ask", "payment="+till, "--ask", "inventory=http://127.0.0.1:1")
	page(t, till+"/payment/none/held") // it answers once its tables exist
	breakIt(t, filepath.Join(folder, "payment.db"),
		"CREATE TRIGGER sick BEFORE INSERT ON transfers BEGIN SELECT RAISE(ABORT, 'the till is shut'); END")
	id := placed(t, orders)
	at := orders + "/" + id + "/status"
	parked := heldUntil(t, at, "payment", "parked")
	want := "skald parked release --store sqlite:" + filepath.Join(folder, "payment.db") +
		" --consumer payment --key " + id + " --reason 'the cause is gone'"
	if parked.Command != want || !strings.Contains(parked.LastError, "the till is shut") ||
		parked.Type != "order.placed" {
		t.Errorf("payment is told as %+v\nwant the command %s", parked, want)
	}
	if why := silentUntil(t, at, "inventory"); !strings.Contains(why, "http://127.0.0.1:1") {
		t.Errorf("inventory is silent: %s", why)
	}
	if code := end(); code != 0 {
		t.Errorf("serve payment: exit %d", code)
	}
	if why := silentUntil(t, at, "payment"); !strings.Contains(why, till) {
		t.Errorf("payment, which has ended, is silent: %s", why)
	}
	if code := endOrders(); code != 0 {
		t.Errorf("serve order: exit %d", code)
	}
}

// A process is told what it could not ask, or would ask twice, before it opens anything.
func TestWhoIsAsked(t *testing.T) {
	for args, want := range map[string]string{
		"order --ask shoes=http://h:1":                                "NAME of order, payment",
		"order --ask payment=h:1":                                     "payment=http://host:port",
		"order --ask payment=http://h:1 --ask payment=http://h:2":     "twice",
		"order --ask order=http://h:1":                                "leave it out",
		"all --ask payment=http://h:1":                                "leave it out",
		"payment --ask inventory=http://h:1":                          "the process that serves order",
		"payment --answer nowhere:x --broker nats://127.0.0.1:1":      "--answer: HTTP server",
		"payment --answer 127.0.0.1:port --broker nats://127.0.0.1:1": "--answer: HTTP server",
	} {
		all := append([]string{"serve", "--store", "sqlite:" + t.TempDir()}, strings.Fields(args)...)
		if code, _, errs := shop(t, all...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("serve %s: exit %d, want %q: %s", args, code, want, errs)
		}
	}
}

// natsURL is a NATS for this test alone.
func natsURL(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
		StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(5 * time.Minute) {
		t.Fatal("NATS does not start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return "nats://" + s.Addr().String()
}

// program starts "serve" with args, gives the URL that it says behind what, and what ends it as a signal
// does.
func program(t *testing.T, what string, args ...string) (url string, end func() int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"serve"}, args...), write, io.Discard)
		_ = write.Close()
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), what)
	if err != nil || !ok {
		t.Fatalf("serve says %q, %v", line, err)
	}
	return url, func() int {
		stop()
		return <-code
	}
}

func placed(t *testing.T, orders string) (id string) { return placedBy(t, orders, "ada") }

func placedBy(t *testing.T, orders, customer string) (id string) {
	t.Helper()
	body := `{"customer":"` + customer + `","items":[{"sku":"tea","quantity":2}]}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, orders, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "of "+customer)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var made order.Status
	if err := json.NewDecoder(answer.Body).Decode(&made); err != nil ||
		answer.StatusCode != http.StatusCreated {
		t.Fatalf("place an order: %s, %v", answer.Status, err)
	}
	return made.ID
}

// heldUntil asks for the status until it tells a service in this state, and gives that.
func heldUntil(t *testing.T, url, service, state string) (found status.Held) {
	t.Helper()
	statusUntil(t, url, func(a *status.Answer) bool {
		i := slices.IndexFunc(a.Held,
			func(h status.Held) bool { return h.Service == service && h.State == state })
		if i >= 0 {
			found = a.Held[i]
		}
		return i >= 0
	})
	return found
}

// silentUntil asks for the status until a service gives no answer, and says why.
func silentUntil(t *testing.T, url, service string) (why string) {
	t.Helper()
	statusUntil(t, url, func(a *status.Answer) bool {
		i := slices.IndexFunc(a.Silent, func(s status.Silent) bool { return s.Service == service })
		if i >= 0 {
			why = a.Silent[i].Why
		}
		return i >= 0
	})
	return why
}

func statusUntil(t *testing.T, url string, done func(*status.Answer) bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var now status.Answer
		err = json.NewDecoder(answer.Body).Decode(&now)
		if _ = answer.Body.Close(); err != nil {
			t.Fatalf("%s: %v", answer.Status, err)
		}
		if done(&now) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the status is %+v", now)
		}
	}
}
