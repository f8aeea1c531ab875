package inbox_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// A record above the limit is a dead letter with its hash, its beginning and its position. Other keys
// continue. A too large record of a type without a handler is skipped.
func TestRecordThatIsTooLargeIsADeadLetter(t *testing.T) {
	w := newWorld(t, 1)
	var log bytes.Buffer
	in := w.inbox(&inbox.Options{Now: w.clock, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		func(_ context.Context, t tx, m skald.Received[string]) error {
			return note(t, "all", m.Value[:3])
		})
	large, headers, id, strange := w.message("a", strings.Repeat("x", 900<<10)), w.message("b", "b"),
		w.message("c", "c"), w.message("d", strings.Repeat("y", 1_000_000))
	headers.Headers = []skald.Header{{Name: "h", Value: bytes.Repeat([]byte("h"), 1_000_000)}}
	id.ID = strings.Repeat("i", 950_000)
	strange.Type = "strange"
	w.publish(large, headers, id, strange, w.message("e", "one"))
	w.quiet(in)
	w.expect("all", "one")
	yes := true
	kept, err := store.ListParked(t.Context(), w.db, store.ParkedQuery{Consumer: "stock", Dead: &yes,
		Limit: 10})
	if err != nil || len(kept) != 3 {
		t.Fatalf("%d dead letters: %v", len(kept), err)
	}
	for i, k := range kept {
		m := &k.Message
		if k.Dead.Kind != "too_large" || k.Position != int64(i) || len(m.Data) > 64<<10 ||
			len(m.Headers) > 0 || len(m.ID) > 1100 || len(m.Key) != 1 {
			t.Errorf("letter %d is of kind %s at %d, with %d bytes of data, id %.20s", i, k.Dead.Kind,
				k.Position, len(m.Data), m.ID)
		}
	}
	sum := sha256.Sum256(large.Data)
	if k := kept[0]; !strings.Contains(k.Last.Why, hex.EncodeToString(sum[:])) ||
		!bytes.Equal(k.Message.Data, large.Data[:64<<10]) {
		t.Errorf("the letter says %s and has %d bytes", k.Last.Why, len(k.Message.Data))
	}
	if log.Len() > 20_000 {
		t.Errorf("%d bytes were logged", log.Len())
	}
}

// unpacker is a broker with a driver that does not unpack a batch: instead it delivers a Fault without a
// message.
type unpacker struct{ broker.Subscriber }

func (u unpacker) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	s, err := u.Subscriber.Subscribe(ctx, g)
	return unpackerSubscription{s}, err
}

type unpackerSubscription struct{ broker.Subscription }

func (s unpackerSubscription) Receive(ctx context.Context, most int) (broker.Batch, error) {
	b, err := s.Subscription.Receive(ctx, most)
	for i := range b.Deliveries {
		if d := &b.Deliveries[i]; d.Position == 1 {
			d.Message, d.Fault = skald.Message{Topic: d.Topic},
				&broker.TooLargeError{Limit: 32 << 20, First: 1, Last: 7}
		}
	}
	return b, err
}

// A batch that was not unpacked becomes a dead letter of the kind too_large with its range, and later
// messages are handled. After a redrive it is a dead letter again, and its error has the remedy.
func TestBatchThatIsNotUnpackedIsADeadLetter(t *testing.T) {
	w := newWorld(t, 1)
	in := inbox.New(w.db, unpacker{w.bus}, "stock",
		&inbox.Options{Now: w.clock, Logger: slog.New(slog.DiscardHandler)})
	inbox.On(in, said,
		func(_ context.Context, t tx, m skald.Received[string]) error { return note(t, "all", m.Value) })
	w.publish(w.message("k", "a"), w.message("k", "never read"), w.message("k", "c"))
	w.quiet(in)
	w.expect("all", "a c")
	for _, want := range []string{"the batch of positions 1 to 7",
		"have it sent again, and drop this dead letter: the batch of positions 1 to 7"} {
		dead := w.dead()
		if len(dead) != 1 || dead[0].Dead.Kind != "too_large" || dead[0].Position != 1 ||
			!strings.Contains(dead[0].Last.Why, want) {
			t.Fatalf("dead are %+v", dead)
		}
		w.apply(store.Effect{Requeue: &store.Requeue{Consumer: "stock", Identity: dead[0].Identity}})
		w.pass(2 * time.Second)
		w.quiet(in)
	}
	w.publish(w.message("k", "d"))
	w.quiet(in)
	w.expect("all", "a c d")
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.backlog(); n != 0 {
		t.Errorf("%d are not acknowledged", n)
	}
}

// Many payloads for one identity fill neither the quarantine nor the log.
func TestQuarantineIsBounded(t *testing.T) {
	w := newWorld(t, 1)
	var log bytes.Buffer
	in := w.inbox(&inbox.Options{Now: w.clock, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		func(_ context.Context, t tx, m skald.Received[string]) error {
			return note(t, "all", m.Value)
		})
	for i := range 50 {
		m := w.message("", fmt.Sprint(i))
		m.ID = "one"
		w.publish(m)
	}
	w.quiet(in)
	w.expect("all", "0")
	kept, err := store.ListQuarantined(t.Context(), w.db, store.QuarantineQuery{})
	if n := strings.Count(log.String(), "put into quarantine"); err != nil ||
		len(kept) != store.QuarantineOfOne || n != 1 || in.Health().Conflicts != 49 ||
		in.Health().Quarantined != store.QuarantineOfOne {
		t.Errorf("%d are in quarantine, %d of %d told: %v", len(kept), n, in.Health().Conflicts, err)
	}
}
