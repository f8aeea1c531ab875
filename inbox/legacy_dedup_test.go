package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// recordID records id in a team's own deduplication table. Consumers without Skald call it in the transaction
// of the effect.
func recordID(_ context.Context, t tx, id store.Identity, _ skald.Message) (known bool, err error) {
	err = t.Update("seen "+id.ID, func(_ string, ok bool) string { known = ok; return "yes" })
	return known, err
}

// byHand handles a message as a consumer without Skald does.
func (w *world) byHand(m skald.Message) {
	w.t.Helper()
	t := w.db.BeginTx()
	known, err := recordID(w.t.Context(), t, store.Identity{ID: m.ID}, m)
	if err == nil && !known {
		err = note(t, "old", m.ID)
	}
	if err = errors.Join(err, t.Commit()); err != nil {
		w.t.Fatal(err)
	}
}

// noted returns the ids in the deduplication table.
func (w *world) noted() (ids []string) {
	for key := range w.db.User() {
		if id, ok := strings.CutPrefix(key, "seen "); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Messages that consumers without Skald handled are not handled again, and they do not handle messages
// that an inbox handled.
func TestOwnDeduplicationTable(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(func(_ context.Context, t tx, m skald.Received[string]) error {
		return note(t, "new", m.ID)
	})
	in.LegacyDedup(recordID)
	a, b := w.message("k", "a"), w.message("k", "b")
	w.byHand(a)
	w.publish(a, b, a, b)
	w.quiet(in)
	w.byHand(b) // the next owner of its partition
	w.expect("new", b.ID)
	w.expect("old", a.ID)
	if h := in.Health(); h.Handled != 1 || h.Duplicates != 3 {
		t.Errorf("%+v", h)
	}
	if marks := w.db.Marks(); len(marks) != 2 {
		t.Errorf("marks: %+v", marks)
	}
	if n := w.backlog(); n != 0 {
		t.Errorf("%d are not acknowledged", n)
	}
}

// The table is asked for each message even if messages could share a transaction, also with a batch
// handler.
func TestBatchesWithOwnDeduplicationTable(t *testing.T) {
	w := newWorld(t, 1)
	in := w.inbox(&inbox.Options{Now: w.clock, Batch: 10},
		func(_ context.Context, t tx, m skald.Received[string]) error { return note(t, "new", m.ID) })
	inbox.OnBatch(in, skald.Event[string]{Topic: "orders", Type: "many"},
		func(_ context.Context, t tx, ms []skald.Received[string]) error {
			for _, m := range ms {
				if err := note(t, "many", m.ID); err != nil {
					return err
				}
			}
			return nil
		})
	in.LegacyDedup(recordID)
	var ms []skald.Message
	for i := range 8 {
		m := w.message(fmt.Sprint(i%3), "x")
		if i%2 == 1 {
			m.Type = "many"
		}
		if i < 4 {
			w.byHand(m)
		}
		ms = append(ms, m)
	}
	w.publish(ms...)
	w.quiet(in)
	for list, want := range map[string]string{"new": "m-5 m-7", "many": "m-6 m-8"} {
		got := strings.Fields(w.db.User()[list])
		if slices.Sort(got); strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", list, got, want)
		}
	}
	if h := in.Health(); h.Handled != 4 || h.Duplicates != 4 || len(w.noted()) != 8 {
		t.Errorf("%+v, noted %q", h, w.noted())
	}
}

// A rejection is recorded in the table, in the transaction that stores it.
func TestRejectionIsInOwnTable(t *testing.T) {
	w := newWorld(t, 1)
	lock := store.Lock{Space: "stock", Key: "tea"}
	in := w.inbox(&inbox.Options{Now: w.clock,
		Transaction: inbox.Transaction{
			Entities: func(skald.Message) []store.Lock { return []store.Lock{lock} }}},
		func(_ context.Context, t tx, m skald.Received[string]) error {
			return errors.Join(note(t, "undone", m.ID),
				skald.Reject(errors.New("none left"), said.New("", "no")))
		})
	in.LegacyDedup(recordID)
	m := w.message("k", "a")
	w.publish(m, m)
	w.quiet(in)
	w.expect("undone", "")
	if got := w.noted(); !slices.Equal(got, []string{m.ID}) {
		t.Errorf("noted are %q", got)
	}
	marks := w.db.Marks()
	if len(marks) != 1 || marks[0].Outcome != store.Rejected || marks[0].Reason != "none left" ||
		len(w.db.Rows()) != 1 {
		t.Errorf("%+v, said %d", marks, len(w.db.Rows()))
	}
	if h := in.Health(); h.Rejected != 1 || h.Duplicates != 1 {
		t.Errorf("%+v", h)
	}
}

// undone is a driver that calls a function after a rollback.
type undone struct {
	store.Driver[tx]
	behind func()
}

type undoneUnit struct {
	store.Unit[tx]
	d *undone
}

func (d *undone) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	return undoneUnit{u, d}, err
}

func (u undoneUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	did, err := u.Unit.Rollback(ctx, instead...)
	behind := u.d.behind
	u.d.behind = func() {}
	behind()
	return did, err
}

// Between the two transactions of a rejection, a consumer without Skald handles the message, an entity
// changes, another instance finishes the message, or the database is away. Then the rejection is not
// stored, and work done without Skald is not done again.
func TestRejectionThatIsNoLongerTrueInOwnTable(t *testing.T) {
	lock := store.Lock{Space: "stock", Key: "tea"}
	for name, c := range map[string]struct {
		behind    func(w *world, m skald.Message)
		new, old  string
		runs, had int // of the handler; marks that say done
	}{
		"taken by hand": {func(w *world, m skald.Message) { w.byHand(m) }, "", "m-1", 1, 1},
		"moved": {func(w *world, _ skald.Message) {
			w.apply(store.Effect{Locks: []store.Lock{lock}})
		}, "m-1", "", 2, 1},
		"finished": {func(w *world, m skald.Message) {
			w.apply(store.Effect{Mark: &store.Mark{Consumer: "stock",
				Identity: store.Identity{Source: m.Source, ID: m.ID}, Outcome: store.Done}})
		}, "", "", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			m := w.message("k", "a")
			db := &undone{Driver: w.db, behind: func() { c.behind(w, m) }}
			runs := 0
			in := w.over(db, &inbox.Options{Now: w.clock,
				Transaction: inbox.Transaction{
					Entities: func(skald.Message) []store.Lock { return []store.Lock{lock} }}},
				func(_ context.Context, t tx, m skald.Received[string]) error {
					if runs++; runs == 1 {
						return skald.Reject(errors.New("none left"))
					}
					return note(t, "new", m.ID)
				})
			in.LegacyDedup(recordID)
			w.publish(m)
			w.quiet(in)
			w.expect("new", c.new)
			w.expect("old", c.old)
			marks := w.db.Marks()
			if len(marks) != c.had || marks[0].Outcome != store.Done || runs != c.runs ||
				in.Health().Rejected != 0 {
				t.Errorf("%d runs, %+v, %+v", runs, marks, in.Health())
			}
		})
	}
}

// A message that fails is not recorded. If a consumer without Skald handles it while it is parked, it is
// not handled again.
func TestFailureIsNotInOwnTable(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(func(_ context.Context, t tx, m skald.Received[string]) error {
		return errors.Join(note(t, "new", m.ID), errors.New("not yet"))
	})
	in.LegacyDedup(recordID)
	m := w.message("k", "a")
	w.publish(m)
	w.quiet(in)
	if got := w.noted(); len(got) != 0 || len(w.kept()) != 1 {
		t.Fatalf("noted are %q, kept %+v", got, w.kept())
	}
	w.byHand(m)
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("new", "")
	w.expect("old", m.ID)
	if h := in.Health(); len(w.kept()) != 0 || len(w.db.Marks()) != 1 || h.Duplicates != 1 {
		t.Errorf("kept %+v, %+v", w.kept(), h)
	}
}

// If the function fails or panics, that is the message's failure, as if its handler had failed.
func TestFailureOfOwnTable(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(func(_ context.Context, t tx, m skald.Received[string]) error {
		return note(t, "new", m.ID)
	})
	asked := 0
	in.LegacyDedup(func(ctx context.Context, t tx, id store.Identity, m skald.Message) (bool, error) {
		switch asked++; asked {
		case 1:
			return false, errors.New("no such table")
		case 2:
			panic("nil map")
		}
		return recordID(ctx, t, id, m)
	})
	w.publish(w.message("k", "a"))
	for _, why := range []string{"no such table", "nil map"} {
		w.quiet(in)
		if kept := w.kept(); len(kept) != 1 || !strings.Contains(kept[0].Last.Why, why) {
			t.Fatalf("kept: %+v", kept)
		}
		w.pass(time.Minute)
	}
	w.quiet(in)
	w.expect("new", "m-1")
}

// An operator overrides the table: a message that was admitted although another has its identity is
// handled. An admitted message that may have been handled before is looked up.
func TestAdmittedMessageWithOwnTable(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(func(_ context.Context, t tx, m skald.Received[string]) error {
		return note(t, "new", m.ID)
	})
	in.LegacyDedup(recordID)
	var numbers []int64
	for i, why := range []store.Outcome{store.Conflict, store.TooOld, store.TooOld} {
		m := w.message("", "x")
		if i < 2 {
			w.byHand(m)
		}
		w.apply(store.Effect{Quarantine: &store.Quarantined{Consumer: "stock",
			Identity: store.Identity{Source: m.Source, ID: m.ID}, Why: why, Message: m}})
		numbers = append(numbers, int64(i+1))
	}
	w.admit(numbers...)
	w.quiet(in)
	w.expect("new", "m-1 m-3")
	if left := w.quarantine(store.QuarantineQuery{}); len(left) != 0 {
		t.Errorf("left are %+v", left)
	}
}

// Work that comes from no broker uses the table by the user's function: the result of that function is
// stored with the mark.
func TestOnceWithOwnTable(t *testing.T) {
	w := newWorld(t, 1)
	old := w.db.BeginTx()
	if err := errors.Join(old.Put("answer k-1", "of before"), old.Commit()); err != nil {
		t.Fatal(err)
	}
	charge := func(key string) (string, bool, error) {
		return once.Do(t.Context(), w.db, "charge", key, nil,
			func(_ context.Context, t tx) (answer string, err error) {
				err = t.Update("answer "+key, func(was string, known bool) string {
					if answer = was; !known {
						answer = "of now"
					}
					return answer
				})
				return answer, err
			})
	}
	for _, c := range []struct {
		key, answer string
		replayed    bool
	}{{"k-1", "of before", false}, {"k-1", "of before", true}, {"k-2", "of now", false},
		{"k-2", "of now", true}} {
		if got, replayed, err := charge(c.key); err != nil || got != c.answer || replayed != c.replayed {
			t.Errorf("%+v: %q, %v, %v", c, got, replayed, err)
		}
	}
}

// Failures of a message before it came here count, for the message itself and while it waits behind
// another of its key.
func TestAttemptsBeforeTheConsumerCount(t *testing.T) {
	w := newWorld(t, 1)
	in := w.inbox(&inbox.Options{Now: w.clock, Retry: inbox.Retry{Attempts: 4},
		Dead:     inbox.Dead{FreeKey: true},
		Identity: inbox.Identity{Attempt: inbox.AttemptByHeader("attempts")}},
		func(context.Context, tx, skald.Received[string]) error { return errors.New("no") })
	with := func(m skald.Message, attempts ...string) skald.Message {
		for _, n := range attempts {
			m.Headers = append(m.Headers, skald.Header{Name: "attempts", Value: []byte(n)})
		}
		return m
	}
	w.publish(w.message("k", "0"), with(w.message("k", "3 behind 0"), "3"),
		with(w.message("l", "2"), "1", "2"),
		with(w.message("m", "odd"), "many"), with(w.message("n", "less"), "-7"),
		with(w.message("o", "9"), "9"))
	want := map[string][]int{ // at each look; a dead letter does not change
		"m-1": {1, 2, 3, 4}, "m-2": {0, 0, 0, 4}, "m-3": {3, 4, 4, 4}, "m-4": {1, 2, 3, 4},
		"m-5": {1, 2, 3, 4}, "m-6": {10, 10, 10, 10},
	}
	for look := range 4 {
		w.quiet(in)
		for _, p := range w.kept() {
			if dead := p.Dead != nil; p.Attempts != want[p.ID][look] || dead != (p.Attempts >= 4) {
				t.Errorf("look %d: %s has %d attempts, dead %v", look, p.ID, p.Attempts, dead)
			}
		}
		w.pass(10 * time.Minute)
	}
	if got := inbox.AttemptByHeader("x").Count(broker.Delivery{}); got != 0 {
		t.Errorf("without the header: %d", got)
	}
}

// The same with the count in the payload.
func TestAttemptByField(t *testing.T) {
	for data, want := range map[string]int{
		`{"meta":{"tries":3}}`: 3, `{"meta":{"tries":"4"}}`: 4, `{"meta":{"tries":-2}}`: -2,
		`{"meta":{"tries":1.5}}`: 0, `{"meta":{"tries":"many"}}`: 0,
		`{"meta":{"tries":null}}`: 0, `{"meta":{}}`: 0, `{"meta":7}`: 0, `{}`: 0, `no JSON`: 0, ``: 0,
		`{"meta":{"tries":99999999999999999999}}`: math.MaxInt,
	} {
		if got := inbox.AttemptByField("meta",
			"tries").Count(broker.Delivery{Message: skald.Message{Data: []byte(data)}}); got != want {
			t.Errorf("of %s: %d, want %d", data, got, want)
		}
	}
	w := newWorld(t, 1)
	in := w.inbox(&inbox.Options{Now: w.clock, Retry: inbox.Retry{Attempts: 4},
		Dead: inbox.Dead{FreeKey: true}, Identity: inbox.Identity{Attempt: inbox.AttemptByField("tries")}},
		func(context.Context, tx, skald.Received[string]) error { return errors.New("no") })
	m := w.message("k", "0")
	m.Data = []byte(`{"tries": 3}`)
	w.publish(m)
	w.quiet(in)
	if kept := w.kept(); len(kept) != 1 || kept[0].Attempts != 4 || kept[0].Dead == nil {
		t.Errorf("kept is %+v", kept)
	}
}

// The copy of a message in a retry topic differs from the original only by its count: it is a duplicate,
// not a conflict.
func TestAttemptFieldIsNoPartOfTheFingerprint(t *testing.T) {
	w := newWorld(t, 1)
	ran := 0
	in := inbox.New(w.db, w.bus, "stock", &inbox.Options{Now: w.clock,
		Identity: inbox.Identity{Attempt: inbox.AttemptByField("meta", "tries")}})
	inbox.On(in, skald.Event[map[string]any]{Topic: "orders", Type: "said"},
		func(context.Context, tx, skald.Received[map[string]any]) error { ran++; return nil })
	first := w.message("k", "x")
	var copies []skald.Message
	for _, data := range []string{`{"n":1.0}`, `{"meta":{"tries":1},"n":1.0}`,
		`{"n": 2, "meta":{"tries":2}}`} {
		m := first
		m.Data = []byte(data)
		copies = append(copies, m)
	}
	w.publish(copies...)
	w.quiet(in)
	if q, err := store.ListQuarantined(t.Context(), w.db,
		store.QuarantineQuery{Consumer: "stock"}); err != nil ||
		len(q) != 1 || ran != 1 {
		t.Errorf("handled %d times, %d in quarantine, %v: want 1 and the one whose n differs", ran,
			len(q), err)
	}
}

func finished(ids ...string) iter.Seq2[inbox.Finished, error] {
	return func(yield func(inbox.Finished, error) bool) {
		for _, id := range ids {
			if !yield(inbox.Finished{Identity: store.Identity{Source: "/other", ID: id}}, nil) {
				return
			}
		}
	}
}

// An imported message is a duplicate. An import can be interrupted and repeated, and its audit has author
// and reason.
func TestImport(t *testing.T) {
	w := newWorld(t, 1)
	var ids []string
	for range 1200 {
		w.n++
		ids = append(ids, w.message("", "").ID)
	}
	broken := errors.New("line 701")
	until := func(n int) iter.Seq2[inbox.Finished, error] {
		return func(yield func(inbox.Finished, error) bool) {
			for f := range finished(ids[:n]...) {
				if !yield(f, nil) {
					return
				}
			}
			yield(inbox.Finished{}, broken)
		}
	}
	if did, err := inbox.Import(t.Context(), w.db, "stock", "ann", "cut-over", until(700)); !errors.Is(err,
		broken) || did.New != 500 {
		t.Errorf("%+v, %v", did, err)
	}
	ids = append(ids, ids[0], ids[1199]) // one with a mark, one twice in a batch
	did, err := inbox.Import(t.Context(), w.db, "stock", "ann", "cut-over", finished(ids...))
	if err != nil || did != (inbox.Imported{New: 700, Existing: 502}) {
		t.Errorf("%+v, %v", did, err)
	}
	if did, err = inbox.Import(t.Context(), w.db, "stock", "ann", "cut-over", finished(ids...)); err != nil ||
		did.New != 0 {
		t.Errorf("%+v, %v", did, err)
	}
	if n := len(w.db.Marks()); n != 1200 {
		t.Errorf("%d marks", n)
	}
	audits := w.db.AuditLog()
	if len(audits) != 3 || audits[0].Author != "ann" || audits[0].Reason != "cut-over" ||
		audits[0].Action != "import marks" || audits[1].ID != ids[500] {
		t.Errorf("%+v", audits)
	}
	in := w.stepper(keep)
	m := w.message("k", "1")
	m.ID = ids[77]
	w.publish(m)
	w.quiet(in)
	w.expect("k", "")
	if h := in.Health(); h.Duplicates != 1 {
		t.Errorf("%+v", h)
	}
}

// A message older than the retention of marks gets no mark: a duplicate of it goes into quarantine anyway.
func TestImportOfExpiredMarks(t *testing.T) {
	w := newWorld(t, 1)
	old := uuid7.New(w.now)
	w.apply(store.Effect{Mark: &store.Mark{Consumer: "stock",
		Identity: store.Identity{Source: "/other", ID: old}, Outcome: store.Done}})
	for _, days := range []time.Duration{0, 31} {
		w.pass(days * 24 * time.Hour)
		if _, err := w.db.Maintain(t.Context(), store.Maintain{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{"", "stock"} {
		if _, err := inbox.Import(t.Context(), w.db, bad, "", "", finished("")); err == nil {
			t.Errorf("%q, and no id: it is imported", bad)
		}
	}
	did, err := inbox.Import(t.Context(), w.db, "stock", "", "", finished(old, uuid7.New(w.now)))
	if err != nil || did != (inbox.Imported{New: 1, TooOld: 1}) {
		t.Errorf("%+v, %v", did, err)
	}
}
