package inbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

func (w *world) quarantine(q store.QuarantineQuery) []store.Quarantined {
	w.t.Helper()
	out, err := store.ListQuarantined(w.t.Context(), w.db, q)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) admit(numbers ...int64) {
	w.t.Helper()
	if n, err := store.AdmitAll(w.t.Context(), w.db, numbers, "ann", "looked at it"); err != nil ||
		n != len(numbers) {
		w.t.Fatalf("admit %v: %d, %v", numbers, n, err)
	}
}

// Another payload with a known identity goes into quarantine, and blocks no key. After it is admitted it
// is handled once, and recognized from then on.
func TestAnotherPayloadUnderTheSameIdentityIsKept(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(keep)
	a := w.message("k", "1")
	b := a
	b.Data = []byte(`"2"`)
	w.publish(a, b, w.message("k", "3"), a, b)
	w.quiet(in)
	w.expect("k", "1 3")
	kept := w.quarantine(store.QuarantineQuery{})
	if len(kept) != 1 || kept[0].Why != store.Conflict || !bytes.Equal(kept[0].Message.Data, b.Data) ||
		kept[0].ID != a.ID {
		t.Fatalf("in quarantine: %+v", kept)
	}
	if h := in.Health(); h.Conflicts != 2 || h.Duplicates != 1 || h.Unacknowledged != 0 || w.backlog() != 0 {
		t.Errorf("health %+v", h)
	}
	w.admit(kept[0].Number)
	w.pass(time.Minute)
	w.quiet(in)
	w.publish(b, a)
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("k", "1 3 2")
	if left := w.quarantine(store.QuarantineQuery{}); len(left) != 0 || len(w.db.Marks()) != 3 {
		t.Errorf("left in quarantine %+v; marks %+v", left, w.db.Marks())
	}
}

// Parts outside of the fingerprint may differ: headers, times, or fields that the user's function ignores.
func TestFieldsOutsideTheFingerprintMayDiffer(t *testing.T) {
	w := newWorld(t, 1)
	own := func(m skald.Message) []byte {
		if bytes.HasPrefix(m.Data, []byte(`"x`)) {
			return nil
		}
		return m.Data[:2]
	}
	for name, o := range map[string]*inbox.Options{"default": {Now: w.clock},
		"own": {Now: w.clock, Identity: inbox.Identity{Fingerprint: own}}} {
		in := w.inbox(o, keep)
		a := w.message(name, "1")
		b := a
		b.Time, b.Headers, b.TraceParent = time.Now(), []skald.Header{{Name: "again", Value: []byte("yes")}},
			"00-other"
		c := w.message(name, "x2")
		w.publish(a, b, c)
		if o.Identity.Fingerprint != nil {
			b.Data = []byte(`"1 later"`)
			c.Data = []byte(`"x3"`)
			w.publish(b, c)
		}
		w.quiet(in)
		w.expect(name, "1 x2")
		if err := in.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if kept := w.quarantine(store.QuarantineQuery{}); len(kept) != 0 {
		t.Errorf("in quarantine: %+v", kept)
	}
}

// A mark without a fingerprint, of an earlier build, is a duplicate.
func TestMarkWithoutAFingerprint(t *testing.T) {
	w := newWorld(t, 1)
	m := w.message("k", "1")
	if _, err := w.db.Apply(t.Context(),
		store.Effect{Mark: &store.Mark{Consumer: "stock",
			Identity: store.Identity{Source: m.Source, ID: m.ID}, Outcome: store.Done}}); err != nil {
		t.Fatal(err)
	}
	in := w.stepper(keep)
	w.publish(m)
	w.quiet(in)
	if h := in.Health(); h.Duplicates != 1 || len(w.quarantine(store.QuarantineQuery{})) != 0 {
		t.Errorf("health %+v", h)
	}
}

// dated returns a message with an id of that time.
func (w *world) dated(key, data string, at time.Time) skald.Message {
	m := w.message(key, data)
	m.ID = uuid7.New(at)
	return m
}

// After a mark expired, a duplicate is not handled silently. A new consumer handles old messages.
// Interleaving 4.
func TestMessagesOlderThanMarksAreQuarantined(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(keep)
	maintain := func() {
		t.Helper()
		if _, err := w.db.Maintain(t.Context(), store.Maintain{}); err != nil {
			t.Fatal(err)
		}
	}
	w.publish(w.dated("new", "80 days", w.now.AddDate(0, 0, -80)),
		w.dated("new", "40 days", w.now.AddDate(0, 0, -40)))
	for range 3 {
		w.quiet(in)
		maintain()
	}
	w.publish(w.dated("new", "60 days", w.now.AddDate(0, 0, -60)))
	w.quiet(in)
	w.expect("new", "80 days 40 days 60 days") // a new consumer handles all messages
	first := w.dated("k", "1", w.now)
	w.publish(first)
	w.quiet(in)
	w.pass(31 * 24 * time.Hour)
	maintain()
	if n := len(w.db.Marks()); n != 0 {
		t.Fatalf("%d marks are left", n)
	}
	late := w.dated("k", "2", w.now.AddDate(0, 0, -33))
	w.publish(first, late, first, w.dated("k", "3", w.now))
	w.quiet(in)
	w.expect("k", "1 3")
	kept := w.quarantine(store.QuarantineQuery{Why: store.TooOld})
	if len(kept) != 2 || kept[0].ID != first.ID || kept[1].ID != late.ID || in.Health().TooOld != 3 ||
		w.backlog() != 0 {
		t.Fatalf("in quarantine %+v, health %+v", kept, in.Health())
	}
	w.admit(kept[1].Number)
	w.pass(time.Minute)
	w.quiet(in)
	w.publish(late)
	w.quiet(in)
	w.expect("k", "1 3 2")
	if left := w.quarantine(store.QuarantineQuery{}); len(left) != 1 || left[0].ID != first.ID {
		t.Errorf("left: %+v", left)
	}
}

// An admitted message behaves as any other: it fails and is retried, or is rejected. Its effects are
// committed together with its removal from quarantine.
func TestAdmittedMessagesFailAndAreRejected(t *testing.T) {
	w := newWorld(t, 1)
	ms := []skald.Message{w.message("k", "fails"), w.message("k", "no"), w.message("other", "fine")}
	for _, m := range ms {
		if _, err := w.db.Apply(t.Context(),
			store.Effect{Quarantine: &store.Quarantined{Consumer: "stock",
				Identity: store.Identity{Source: m.Source, ID: m.ID}, Why: store.TooOld,
				Message: m}}); err != nil {
			t.Fatal(err)
		}
	}
	runs := 0
	in := w.stepper(func(_ context.Context, tx tx, m skald.Received[string]) error {
		if err := note(tx, string(m.Key), m.Value); err != nil {
			return err
		}
		switch {
		case m.Value == "no":
			return skald.Reject(errors.New("too late"),
				skald.Event[string]{Topic: "stock", Type: "short"}.New("k", "no"))
		case m.Value == "fails" && runs < 3:
			runs++
			return errors.New("not yet")
		}
		return nil
	})
	w.quiet(in)
	w.expect("other", "")
	w.admit(1, 2, 3)
	w.pass(time.Minute)
	w.quiet(in)
	if in.Health().Stuck == nil {
		t.Error("the log does not name an admitted message that failed")
	}
	w.expect("k", "") // the rejection waits for the failed message of its key
	w.expect("other", "fine")
	for range 4 {
		w.pass(time.Minute)
		w.quiet(in)
	}
	w.expect("k", "fails")
	if rows := w.db.Rows(); len(rows) != 1 || rows[0].CausationID != ms[1].ID {
		t.Errorf("said: %+v", rows)
	}
	if left := w.quarantine(store.QuarantineQuery{}); len(left) != 0 || len(w.db.Marks()) != 3 ||
		len(w.kept()) != 0 {
		t.Errorf("left: %+v, marks %+v", left, w.db.Marks())
	}
}

// An admitted message waits behind the parked messages of its key, blocks its key while it fails, and
// becomes a dead letter as others do.
func TestAdmittedMessagesAreParkedAsOthersAre(t *testing.T) {
	w := newWorld(t, 1)
	f := &moody{on: map[string]error{"1": errors.New("no"), "admitted": errors.New("never")}}
	in := w.inbox(&inbox.Options{Now: w.clock, Retry: inbox.Retry{Attempts: 3}}, f.handle)
	w.publish(w.message("k", "1"))
	w.quiet(in)
	for _, m := range []skald.Message{w.message("k", "admitted"), w.message("k", "too")} {
		w.apply(store.Effect{Quarantine: &store.Quarantined{Consumer: "stock",
			Identity: store.Identity{Source: m.Source, ID: m.ID}, Why: store.TooOld, Message: m}})
	}
	w.admit(1, 2)
	w.pass(6 * time.Second)
	w.quiet(in)
	if kept := w.kept(); len(kept) < 3 || kept[1].Message.ID != "m-2" || kept[1].Attempts != 0 ||
		!kept[1].Waiting {
		t.Fatalf("kept %+v", kept)
	}
	w.publish(w.message("k", "4"))
	w.quiet(in)
	w.expect("k", "")
	delete(f.on, "1")
	for range 6 {
		w.pass(time.Minute)
		w.quiet(in)
	}
	w.expect("k", "1") // the admitted message is dead, and blocks its key
	d := w.dead()
	if len(d) != 1 || d[0].Message.ID != "m-2" || d[0].Attempts != 3 || d[0].Dead.Kind != "attempts" ||
		d[0].Partition != "skald:quarantine" {
		t.Fatalf("dead letters %+v", d)
	}
	f.on = nil
	w.apply(store.Effect{Requeue: &store.Requeue{Consumer: "stock", Identity: d[0].Identity}})
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("k", "1 admitted too 4")
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("k", "1 admitted too 4")
}

// Admitted messages of a full key, or of a type without a handler, do not stop others. The latter are
// logged rarely, in one line.
func TestAdmittedMessagesThatStayBlockNoOthers(t *testing.T) {
	w := newWorld(t, 1)
	var log strings.Builder
	f := &moody{on: map[string]error{"1": errors.New("no")}}
	in := w.inbox(&inbox.Options{Now: w.clock, Limits: inbox.Limits{KeyRows: 1},
		Logger: slog.New(slog.NewTextHandler(&log, nil))}, f.handle)
	w.publish(w.message("k", "1"))
	w.quiet(in)
	var numbers []int64
	apart := func(m skald.Message) {
		w.apply(store.Effect{Quarantine: &store.Quarantined{Consumer: "stock",
			Identity: store.Identity{Source: m.Source, ID: m.ID}, Why: store.TooOld, Message: m}})
		numbers = append(numbers, int64(len(numbers)+1))
	}
	for range 100 { // as many as are admitted at a time
		apart(w.message("k", "too"))
	}
	for range 5 {
		m := w.message("l", "unknown")
		m.Type = "unknown"
		apart(m)
	}
	apart(w.message("m", "good"))
	w.admit(numbers...)
	for range 60 {
		w.pass(10 * time.Second)
		w.quiet(in)
	}
	w.expect("m", "good")
	if n := strings.Count(log.String(), "stay in quarantine"); n < 2 || n > 7 ||
		!strings.Contains(log.String(), "messages=5") {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

// If two instances run, an admitted message is handled once.
func TestAdmittedOnceByTwo(t *testing.T) {
	w := newWorld(t, 1)
	const n = 40
	var numbers []int64
	for i := range n {
		m := w.message(fmt.Sprint("k", i), "1")
		if _, err := w.db.Apply(t.Context(),
			store.Effect{Quarantine: &store.Quarantined{Consumer: "stock", Identity: store.Identity{ID: m.ID},
				Why: store.TooOld, Message: m}}); err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, int64(i+1))
	}
	w.admit(numbers...)
	for range 2 {
		run(t, w.over(w.db.Session(), nil, keep))
	}
	until(t, "all are handled", func() bool {
		for i := range n {
			if w.db.User()[fmt.Sprint("k", i)] == "" {
				return false
			}
		}
		return len(w.quarantine(store.QuarantineQuery{})) == 0 && len(w.kept()) == 0
	})
	for i := range n {
		w.expect(fmt.Sprint("k", i), "1")
	}
}

func TestIdentityOfTheUsersChoice(t *testing.T) {
	id := func(source, id string) store.Identity { return store.Identity{Source: source, ID: id} }
	d := broker.Delivery{Partition: "orders/3", Position: 17,
		Message: skald.Message{Source: "/s", Topic: "orders", Type: "t", Key: []byte("k"),
			Headers: []skald.Header{{Name: "x-id", Value: []byte("h-1")},
				{Name: "x-id", Value: []byte("h-2")}},
			Data: []byte(`{"order":{"id":"o-1","n":12345678901234567890,"none":null},"x":1}`)}}
	for name, c := range map[string]struct {
		by   func(broker.Delivery) (store.Identity, error)
		want store.Identity
	}{
		"header":       {inbox.ByHeader("x-id"), id("/s", "h-1")},
		"no header":    {inbox.ByHeader("y-id"), id("", "")},
		"field":        {inbox.ByField("order", "order", "id"), id("order", "o-1")},
		"number":       {inbox.ByField("order", "order", "n"), id("order", "12345678901234567890")},
		"null":         {inbox.ByField("order", "order", "none"), id("", "")},
		"no field":     {inbox.ByField("order", "order", "other"), id("", "")},
		"no object":    {inbox.ByField("order", "x", "id"), id("", "")},
		"position":     {inbox.ByPosition, id("position", "orders-3-17")},
		"id":           {inbox.ByID, id("", "")},
		"object":       {inbox.ByField("order", "order"), id("", "")},
		"empty scope":  {inbox.ByField("", "order", "id"), id("", "o-1")},
		"empty header": {inbox.ByHeader(""), id("", "")},
	} {
		if got, err := c.by(d); got != c.want || (err == nil) != (c.want.ID != "") || err != nil &&
			!errors.Is(err, inbox.ErrNoID) {
			t.Errorf("by %s: %+v, %v", name, got, err)
		}
	}
	one, _ := inbox.ByHash(d)
	moved := d
	moved.Position, moved.Headers = 18, nil
	if same, _ := inbox.ByHash(moved); same != one || one.ID == "" {
		t.Errorf("by hash: %+v, then %+v", one, same)
	}
	moved.Data = append(bytes.Clone(d.Data), ' ')
	if other, _ := inbox.ByHash(moved); other == one {
		t.Error("another payload has the same hash")
	}
}

// With a business key as identity, two messages about one order are duplicates: the order is handled once.
func TestBusinessKey(t *testing.T) {
	w := newWorld(t, 1)
	in := w.inbox(&inbox.Options{Now: w.clock,
		Identity: inbox.Identity{Of: func(d broker.Delivery) (store.Identity, error) {
			if d.Key == nil {
				panic("no key")
			}
			return store.Identity{Source: "order", ID: string(d.Key)}, nil
		}}}, keep)
	none := w.message("", "bad")
	none.ID = ""
	w.publish(w.message("k", "1"), w.message("k", "1"), w.message("j", "1"), w.message("k", "2"), none)
	w.quiet(in)
	w.expect("k", "1")
	w.expect("j", "1")
	h := in.Health()
	if len(w.quarantine(store.QuarantineQuery{Why: store.Conflict})) != 1 || h.Handled != 2 ||
		h.Duplicates != 1 ||
		len(h.Stuck) != 1 || !strings.Contains(h.Stuck[0].Error, "no key") {
		t.Errorf("health %+v", h)
	}
}

// The inbox stores the result of a handler once, with the mark. It publishes the drafts again under the same
// ids if Repeat returns true for the message.
func TestResults(t *testing.T) {
	w := newWorld(t, 1)
	type answer struct{ Left int }
	placed := skald.Event[string]{Topic: "stock", Type: "reserved"}
	in := inbox.New(w.db, w.bus, "stock", &inbox.Options{Now: w.clock,
		Identity: inbox.Identity{Repeat: func(m skald.Message) bool { return string(m.Key) != "silent" }}})
	inbox.OnResult(in, said, func(_ context.Context, tx tx, m skald.Received[string]) (inbox.Result, error) {
		r := inbox.Result{Code: 201, Value: answer{7},
			Publish: []skald.Draft{placed.New("k", m.Value), placed.New("k", "and more")}}
		if m.Value == "no" {
			return inbox.Result{Code: 409, Value: answer{0}},
				skald.Reject(errors.New("out of stock"), placed.New("k", "short"))
		}
		return r, note(tx, string(m.Key), m.Value)
	})
	yes, no, silent := w.message("k", "yes"), w.message("k", "no"), w.message("silent", "x")
	w.publish(yes, no)
	w.quiet(in)
	w.publish(silent)
	w.quiet(in)
	first := w.db.Rows()
	if len(first) != 5 {
		t.Fatalf("said %+v", first)
	}
	w.publish(yes, no, silent)
	w.quiet(in)
	again := w.db.Rows()[5:]
	if len(again) != 3 {
		t.Fatalf("said again: %+v", again)
	}
	for i, r := range again {
		r.Seq = first[i].Seq
		if fmt.Sprint(r) != fmt.Sprint(first[i]) {
			t.Errorf("said again:\n%+v\nfirst:\n%+v", r, first[i])
		}
	}
	w.expect("k", "yes")
	for i, want := range []memstore.Marked{{Mark: store.Mark{Outcome: store.Done, Code: 201,
		Result: `{"Left":7}`}}, {Mark: store.Mark{Outcome: store.Rejected, Reason: "out of stock", Code: 409,
		Result: `{"Left":0}`}}} {
		if got := w.db.Marks()[i]; got.Outcome != want.Outcome || got.Code != want.Code ||
			got.Result != want.Result ||
			got.Reason != want.Reason {
			t.Errorf("mark %+v, want %+v", got, want)
		}
	}
	var back answer
	if err := json.Unmarshal([]byte(w.db.Marks()[0].Result), &back); err != nil || back.Left != 7 {
		t.Errorf("%+v, %v", back, err)
	}
}

// A result that cannot be stored is a failure of the message, and its work is rolled back.
func TestResultThatCannotBeStored(t *testing.T) {
	w := newWorld(t, 1)
	in := inbox.New(w.db, w.bus, "stock", &inbox.Options{Now: w.clock})
	var value any = strings.Repeat("x", 70_000)
	in.HandleResult("orders", "said", func(_ context.Context, tx tx, m skald.Message) (inbox.Result, error) {
		return inbox.Result{Value: value}, note(tx, "k", "x")
	})
	w.publish(w.message("k", "1"))
	for _, v := range []any{value, func() {}} {
		value = v
		w.pass(time.Minute)
		w.quiet(in)
		w.expect("k", "")
		if h := in.Health(); len(h.Stuck) != 1 || !strings.Contains(h.Stuck[0].Error, "result") {
			t.Errorf("health %+v", h)
		}
	}
}
