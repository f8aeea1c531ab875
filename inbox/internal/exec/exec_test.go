package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// bench is an Executor with its own database. Its handler records the payloads that it gets.
type bench struct {
	*Executor[*memstore.Tx]
	l    *partition.Partition
	ran  []string
	fail func(data string) error
}

func newBench(t *testing.T, change func(*Config)) *bench {
	t.Helper()
	b := &bench{l: partition.New("orders/0"), fail: func(string) error { return nil }}
	o := Config{
		Up:      func() (time.Time, bool) { return time.Time{}, true },
		InPlace: func() int { return 0 },
		Group:   "stock", Telemetry: telemetry.NewInbox(telemetry.Providers{}, "stock"), Now: time.Now,
		Logger: slog.New(slog.DiscardHandler), Handle: time.Minute, Wait: time.Second,
		Retry: failure.Retry{InitialInterval: time.Second, MaxInterval: time.Minute, Attempts: 3,
			Age: time.Hour},
		Crashes: 3, KeyRows: 100, KeyBytes: 1 << 20, Room: func() bool { return true },
		DeadRoom: func() bool { return true },
		Without:  func(data []byte) []byte { return data },
	}
	if change != nil {
		change(&o)
	}
	b.Executor = New(memstore.New(nil), o)
	if err := b.Rekey(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Handle(store.Kind{Topic: "orders", Type: "said"},
		func(_ context.Context, _ *memstore.Tx, m skald.Message) (Reply, error) {
			b.ran = append(b.ran, string(m.Data))
			return Reply{}, b.fail(string(m.Data))
		})
	return b
}

// entry returns a message as the broker delivers it.
func (b *bench) entry(id, data string) *partition.Entry {
	m := skald.Message{ID: id, Source: "/shop", Topic: "orders", Type: "said", Key: []byte(data),
		Data: []byte(data)}
	e := b.l.Add(broker.Delivery{Message: m, Partition: b.l.Name, Position: int64(len(b.l.Entries))})
	e.Given = store.Identity{Source: "/shop", ID: id}
	return e
}

func endings(rs []Result) (out []decide.Ending) {
	for _, r := range rs {
		out = append(out, r.What)
	}
	return out
}

// A message is handled once. A second delivery is a duplicate, and another message with its identity is a
// conflict.
func TestRepeatIsNotHandled(t *testing.T) {
	b := newBench(t, nil)
	for _, c := range []struct {
		data string
		want decide.Ending
	}{{"one", decide.Handled}, {"one", decide.Duplicate}, {"another", decide.Conflict}} {
		rs := b.Work(t.Context(), []*partition.Entry{b.entry("m-1", c.data)})
		if got := endings(rs); !slices.Equal(got, []decide.Ending{c.want}) {
			t.Errorf("%s: %v, want %v", c.data, got, c.want)
		}
	}
	if !slices.Equal(b.ran, []string{"one"}) {
		t.Errorf("the handler ran for %v", b.ran)
	}
}

// One of several messages in a transaction fails. The failure counts only for this message. The other
// messages are handled, and run at most once more.
func TestOneOfAJobFails(t *testing.T) {
	b := newBench(t, nil)
	b.fail = func(data string) error {
		if data == "two" {
			return errors.New("no stock")
		}
		return nil
	}
	var job []*partition.Entry
	for i, data := range []string{"one", "two", "three"} {
		job = append(job, b.entry(fmt.Sprint("m-", i), data))
	}
	rs := b.Work(t.Context(), job)
	if got, want := endings(rs), []decide.Ending{decide.Handled, decide.Failed,
		decide.Handled}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, data := range []string{"one", "three"} {
		if n := len(slices.DeleteFunc(slices.Clone(b.ran),
			func(ran string) bool { return ran != data })); n > 2 {
			t.Errorf("%s was run %d times", data, n)
		}
	}
	if rs[1].Attempts != 1 || rs[1].Print == "" || rs[1].After <= 0 {
		t.Errorf("the failed message ended as %+v", rs[1])
	}
}

// If no more messages may be parked, a failed message stays at its place. A dead letter is stored anyway.
func TestFullKeepsDeadLettersOnly(t *testing.T) {
	b := newBench(t, func(o *Config) { o.Room = func() bool { return false } })
	b.fail = func(data string) error {
		if data == "dead" {
			return skald.Permanent(errors.New("no such order"))
		}
		return errors.New("not now")
	}
	for data, want := range map[string]decide.Ending{"dead": decide.Dead, "fails": decide.Full} {
		if rs := b.Work(t.Context(), []*partition.Entry{b.entry(data, data)}); rs[0].What != want {
			t.Errorf("%s: %v, want %v", data, rs[0].What, want)
		}
	}
}

// A panic of the handler is a failure. A panic of another function of the user is ignored.
func TestPanicsAreFailures(t *testing.T) {
	b := newBench(t, func(o *Config) {
		o.Earlier = func(broker.Delivery) int { panic("no header") }
	})
	b.fail = func(string) error { panic("no map") }
	rs := b.Work(t.Context(), []*partition.Entry{b.entry("m-1", "one")})
	var p *failure.PanicError
	if rs[0].What != decide.Failed || rs[0].Attempts != 1 || !errors.As(rs[0].Err, &p) {
		t.Errorf("it ended as %v: %v", rs[0].What, rs[0].Err)
	}
}

// Many payloads with one identity do not fill the log. The first is logged, and later lines have a count.
func TestQuarantineIsLoggedRarely(t *testing.T) {
	b, now := newBench(t, nil), time.Now()
	if n, due := b.quarantined.count(now); n != 1 || !due {
		t.Errorf("the first of %d: %v", n, due)
	}
	for range 3 {
		if _, due := b.quarantined.count(now); due {
			t.Error("a second line follows immediately")
		}
	}
	if n, due := b.quarantined.count(now.Add(time.Hour)); n != 4 || !due {
		t.Errorf("an hour later %d: %v", n, due)
	}
}

// A handler is overdue after its time limit plus grace.
func TestOverdueHandler(t *testing.T) {
	b := newBench(t, nil)
	in, late := b.entry("m-1", "in time"), b.entry("m-2", "late")
	defer b.running.begin(time.Minute, in)()
	over := b.running.begin(-grace, late)
	if all := b.Overdue(); len(all) != 1 || all[0].Entries[0] != late {
		t.Errorf("overdue: %+v", all)
	}
	if over(); len(b.Overdue()) != 0 {
		t.Error("a handler that returned is still overdue")
	}
}
