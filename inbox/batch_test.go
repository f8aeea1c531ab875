package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
)

// pause is the time between two turns of a stream. A database has its own clock, which continues
// meanwhile. A retry that is due in half a pause is due at the next turn on any machine.
const pause = 30 * time.Minute

// stream has random messages, the results of their handlers, and the options of the inbox.
type stream[TTx comparable] struct {
	w       *world
	on      *ground[TTx]
	begun   time.Time
	turns   [][]skald.Message
	batch   int
	many    bool // a batch handler
	guilty  bool // the batch handler names the message that failed
	shared  int  // handler runs in a transaction that others ran in before
	runs    map[string]int
	waiting map[TTx]bool
}

// deliveries returns the deliveries of a seed, turn by turn. They include duplicates, other payloads under
// an id, messages with and without keys, and several types.
func deliveries(w *world, seed uint64) (turns [][]skald.Message) {
	r := rand.New(rand.NewPCG(seed, 7))
	var all []skald.Message
	for range 5 {
		var turn []skald.Message
		before := len(all)
		for range 5 + r.IntN(25) {
			if n := len(all); n > 0 && r.IntN(8) == 0 {
				i := r.IntN(n)
				again := all[i]
				if r.IntN(4) == 0 && (len(again.Key) > 0 || i < before) {
					// without a key the order of two messages is not defined
					again.Data = fmt.Appendf(nil, "%q", fmt.Sprintf("other%d", r.IntN(3)))
				}
				turn = append(turn, again)
				continue
			}
			m := w.message([]string{"a", "b", "c", "d", ""}[r.IntN(5)], "")
			what := []string{"ok", "ok", "ok", "ok", "ok", "ok", "reject", "fail", "later", "dead", "panic",
				"garbled"}[r.IntN(12)]
			m.Data = fmt.Appendf(nil, "%q", fmt.Sprintf("%s%d", what, r.IntN(9)))
			if what == "garbled" {
				m.Data = []byte("{")
			}
			if r.IntN(12) == 0 {
				m.ID = ""
			}
			switch n := r.IntN(10); {
			case n < 2:
				m.Type = "many"
			case n < 5 && m.Key != nil: // the order of its saga is that of its key
				m.Type = "charge"
			case n < 6 && m.Key != nil:
				m.Type = "refund"
			}
			all, turn = append(all, m), append(turn, m)
		}
		turns = append(turns, turn)
	}
	return turns
}

// does returns the result of the handler, which depends on the message and the time.
func (s *stream[TTx]) does(m skald.Received[string]) error {
	early := s.w.clock().Sub(s.begun) < time.Duration(m.Value[len(m.Value)-1]-'0')*pause
	switch what := strings.TrimRight(m.Value, "0123456789"); {
	case what == "reject":
		return skald.Reject(errors.New("no "+m.Value),
			skald.Draft{Topic: "answers", Type: "no", Key: m.Key, Value: m.Value})
	case what == "fail" && early:
		return errors.New("not yet")
	case what == "later" && early:
		return skald.RetryAfter(pause/2, errors.New("later"))
	case what == "dead":
		return skald.Permanent(errors.New("never"))
	case what == "panic" && early:
		panic("oh")
	}
	return nil
}

func (s *stream[TTx]) effect(ctx context.Context, t TTx, m skald.Received[string]) (inbox.Result, error) {
	s.runs[m.ID]++
	if s.waiting[t] {
		s.shared++
	}
	s.waiting[t] = true
	list := string(m.Key)
	if m.Key == nil { // no order
		list = m.ID
	}
	if err := s.on.note(t, list, m.ID+":"+m.Value); err != nil {
		return inbox.Result{}, err
	}
	if err := s.does(m); err != nil {
		return inbox.Result{Code: 9}, err
	}
	draft := skald.Draft{Topic: "answers", Type: "yes", Key: m.Key, Value: m.Value}
	return inbox.Result{Code: int32(len(m.Value)), Value: m.Value, Publish: []skald.Draft{draft}}, nil
}

func (s *stream[TTx]) effects(ctx context.Context, t TTx, ms []skald.Received[string]) error {
	for i, m := range ms {
		_, err := s.effect(ctx, t, m)
		if err != nil && s.guilty {
			return fmt.Errorf("wrapped: %w", inbox.FailMessage(i, err))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// outcome returns the final content of a database, without times and positions.
func (s *stream[TTx]) outcome(t *testing.T) (out []string) {
	for k, v := range s.on.lists(t) {
		out = append(out, fmt.Sprintf("user %s: %s", k, v))
	}
	kept, err := store.ListParked(t.Context(), s.on.db, store.ParkedQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range kept {
		out = append(out, fmt.Sprintf("kept %s of %s: %d attempts, waits %v, dead %v, %q %q %q", p.ID,
			p.Message.Key, p.Attempts, p.Waiting, p.Dead != nil, p.Last.Why, p.Fault, p.Message.Data))
	}
	q, err := store.ListQuarantined(t.Context(), s.on.db, store.QuarantineQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range q {
		out = append(out, fmt.Sprintf("quarantine %s: %v %q", one.ID, one.Why, one.Message.Data))
	}
	steps, err := store.ListSteps(t.Context(), s.on.db, store.StepQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range steps {
		out = append(out, fmt.Sprintf("step %s: %v by %s and %s, %d %s", one.Saga, one.State, one.ID,
			one.By.ID, one.Code, one.Result))
	}
	var ids []store.Identity
	for _, turn := range s.turns {
		for _, m := range turn {
			ids = append(ids, store.Identity{Source: m.Source, ID: m.ID})
		}
	}
	seen, err := s.on.db.Seen(t.Context(), "stock", ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range seen {
		out = append(out, fmt.Sprintf("seen %s: %v %s %d %s %v", ids[i].ID, v.Outcome, v.Reason, v.Code,
			v.Result, v.Emitted != ""))
	}
	slices.Sort(out)
	return append(out, s.said(t)...)
}

// said returns the messages of the outbox for each key, in order.
func (s *stream[TTx]) said(t *testing.T) (out []string) {
	tip, err := store.Snapshot(t.Context(), s.on.db, "")
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.on.db.Pull(t.Context(), store.Window{Tip: tip}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	of, known := map[string]string{}, map[string]bool{}
	for _, r := range page.Rows {
		if known[r.ID] { // an answer sent again: its order with retries is not defined
			continue
		}
		known[r.ID] = true
		if r.Key == nil { // no order
			out = append(out, fmt.Sprintf("said %s %s because of %s", r.Type, r.Data, r.CausationID))
			continue
		}
		of[string(r.Key)] += fmt.Sprintf(" %s %s of %s", r.Type, r.Data, r.CausationID)
	}
	for key, all := range of {
		out = append(out, "said about "+key+":"+all)
	}
	slices.Sort(out)
	return out
}

func (s *stream[TTx]) run(t *testing.T, seed uint64, open opening[TTx]) []string {
	s.w = newWorld(t, 2)
	s.on = open(s.w)
	s.begun, s.runs, s.waiting = s.w.clock(), map[string]int{}, map[TTx]bool{}
	s.turns = deliveries(s.w, seed)
	in := inbox.New(s.on.db, s.w.bus, "stock", &inbox.Options{Now: s.w.clock, Workers: 1, Batch: s.batch,
		// OutageRetryTime is long, because retries of lasting failures depend on the time that handlers took.
		Retry: inbox.Retry{Attempts: 4, InitialInterval: pause / 2, MaxInterval: pause / 2,
			OutageRetryTime: 1000 * time.Hour},
		Dead:     inbox.Dead{FreeKey: seed%2 == 0},
		Identity: inbox.Identity{Repeat: func(m skald.Message) bool { return len(m.Data)%2 == 0 }},
		Logger:   slog.New(slog.DiscardHandler)})
	inbox.OnResult(in, said, s.effect)
	if s.many {
		inbox.OnBatch(in, skald.Event[string]{Topic: "orders", Type: "many"}, s.effects)
	} else {
		inbox.On(in, skald.Event[string]{Topic: "orders", Type: "many"},
			func(ctx context.Context, t TTx, m skald.Received[string]) error {
				return s.effects(ctx, t, []skald.Received[string]{m})
			})
	}
	step := inbox.NewStep(in, "charge", func(m skald.Received[string]) string {
		return string(m.Key) + m.Value[len(m.Value)-1:]
	})
	inbox.DoOn(step, skald.Event[string]{Topic: "orders", Type: "charge"}, s.effect)
	inbox.UndoOn(step, skald.Event[string]{Topic: "orders", Type: "refund"},
		func(ctx context.Context, t TTx, m skald.Received[string], _ inbox.DoneStep) (inbox.Result, error) {
			return s.effect(ctx, t, m)
		})
	for _, turn := range s.turns {
		s.w.publish(turn...)
		s.w.quiet(in)
		s.on.passes(s.w, pause)
	}
	for range 10 {
		s.w.quiet(in)
		s.on.passes(s.w, 5*pause)
	}
	if h := in.Health(); h.Unacknowledged > 0 {
		t.Errorf("%d messages are not acknowledged", h.Unacknowledged)
	}
	return s.outcome(t)
}

// The same messages have the same result one by one in memory and in batches on each database: effects,
// rejections, published messages and their order, parked messages, dead letters and quarantine.
// Interleaving 14.
func TestBatchesEndAsOneByOne(t *testing.T) {
	t.Parallel()
	onFile, onServer := uint64(2), uint64(1)
	if need.Full() {
		onFile, onServer = 3, 3
	}
	t.Run("memory", func(t *testing.T) { endsAsOneByOne(t, 10, inMemory) })
	t.Run("SQLite", func(t *testing.T) { endsAsOneByOne(t, onFile, onSQLite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { endsAsOneByOne(t, onServer, onPostgres(t)) })
}

func endsAsOneByOne[TTx comparable](t *testing.T, seeds uint64, open opening[TTx]) {
	shared := 0
	for seed := range seeds {
		want := (&stream[tx]{batch: 1}).run(t, seed, inMemory)
		for _, s := range []*stream[TTx]{{batch: 1}, {}, {batch: 3}, {batch: 100}, {batch: 7, many: true},
			{batch: 100, many: true, guilty: true}} {
			got := s.run(t, seed, open)
			shared += s.shared
			if slices.Equal(got, want) {
				continue
			}
			for i := range max(len(got), len(want)) {
				a, b := "", ""
				if i < len(want) {
					a = want[i]
				}
				if i < len(got) {
					b = got[i]
				}
				if a != b {
					t.Errorf("one by one: %s\nin batches: %s", a, b)
				}
			}
			t.Fatalf("seed %d, batches of %d, batch handler %v, named %v", seed, s.batch, s.many, s.guilty)
		}
	}
	if shared == 0 {
		t.Error("no two messages ever shared a transaction")
	}
}

// A bad message causes at most one more run of each of its neighbors.
// Interleaving 14.
func TestBadMessageCostsItsNeighborsOneRun(t *testing.T) {
	t.Parallel()
	for name, many := range map[string]bool{"one by one": false, "at once": true} {
		t.Run(name, func(t *testing.T) {
			t.Run("memory", func(t *testing.T) { costsOneRun(t, many, inMemory) })
			t.Run("SQLite", func(t *testing.T) { costsOneRun(t, many, onSQLite(t)) })
			t.Run("PostgreSQL", func(t *testing.T) { costsOneRun(t, many, onPostgres(t)) })
		})
	}
}

func costsOneRun[TTx comparable](t *testing.T, many bool, open opening[TTx]) {
	w := newWorld(t, 1)
	on, runs := open(w), map[string]int{}
	one := func(_ context.Context, tx TTx, m skald.Received[string]) error {
		runs[m.Value]++
		if err := on.note(tx, string(m.Key), m.Value); err != nil || !strings.HasPrefix(m.Value, "bad") {
			return err
		}
		return errors.New("no")
	}
	in := inbox.New(on.db, w.bus, "stock", &inbox.Options{Now: w.clock, Workers: 1, Batch: 100,
		Retry: inbox.Retry{InitialInterval: pause}, Logger: slog.New(slog.DiscardHandler)})
	inbox.On(in, said, one)
	if many {
		inbox.Overridable(in)
		inbox.OnBatch(in, said, func(ctx context.Context, tx TTx, ms []skald.Received[string]) error {
			for i, m := range ms {
				if err := one(ctx, tx, m); err != nil {
					return inbox.FailMessage(i, err)
				}
			}
			return nil
		})
	}
	want := map[string]string{}
	for n := range 90 {
		key, what := fmt.Sprint("k", n), fmt.Sprint("good", n)
		if n%9 == 4 {
			what = fmt.Sprint("bad", n)
		} else {
			want[key] = what
		}
		w.publish(w.message(key, what))
	}
	w.quiet(in)
	for value, n := range runs {
		if n > 2 {
			t.Errorf("%s ran %d times", value, n)
		}
	}
	if h := in.Health(); h.Handled != 80 || h.Failures != 10 {
		t.Errorf("health %+v", h)
	}
	if got := on.lists(t); !maps.Equal(got, want) {
		t.Errorf("the effects are %v, want %v", got, want)
	}
}

// An intake of several messages joins all fields of single intakes except two: steps, because their messages
// run alone, and sagas, which the inbox does not use. If you add a field, add it to the join and then to this
// test.
func TestBatchesKnowTheIntake(t *testing.T) {
	known := []string{"Marks", "Steps", "Sagas", "Locks", "Settings", "Server", "Isolation", "Wait", "Handle"}
	for f := range reflect.TypeFor[store.Intake]().Fields() {
		if !slices.Contains(known, f.Name) {
			t.Errorf("inbox/batch.go joins intakes without their %s", f.Name)
		}
	}
}

// A batch handler returns an error without the message that failed. The inbox finds that message.
func TestFailedMessageOfABatchIsFound(t *testing.T) {
	for _, at := range []int{0, 1, 17, 31} {
		w := newWorld(t, 1)
		var sizes []int
		in := w.inbox(&inbox.Options{Now: w.clock, Workers: 1, Batch: 32}, nil)
		inbox.OnBatch(in, said, func(ctx context.Context, tx tx, ms []skald.Received[string]) error {
			sizes = append(sizes, len(ms))
			for _, m := range ms {
				if err := keep(ctx, tx, m); err != nil {
					return err
				}
			}
			if slices.ContainsFunc(ms,
				func(m skald.Received[string]) bool { return m.Value == fmt.Sprint(at) }) {
				panic("one of them")
			}
			return nil
		})
		for n := range 32 {
			w.publish(w.message(fmt.Sprint("k", n%3), fmt.Sprint(n)))
		}
		w.quiet(in)
		if len(sizes) > 24 || sizes[0] != 32 {
			t.Errorf("the handler ran with %v messages", sizes)
		}
		kept := w.kept()
		if len(kept) == 0 || string(kept[0].Message.Data) != fmt.Sprintf("%q", fmt.Sprint(at)) ||
			kept[0].Attempts != 1 {
			t.Errorf("kept %+v", kept)
		}
		for _, p := range kept[1:] {
			if p.Attempts != 0 || !p.Waiting {
				t.Errorf("kept %+v", p)
			}
		}
		h := in.Health()
		if h.Failures != 1 || int(h.Handled)+len(kept) != 32 {
			t.Errorf("health %+v", h)
		}
	}
}

// The types of one call share a batch. A failed message of one of them is found.
func TestBatchOfSeveralTypes(t *testing.T) {
	w := newWorld(t, 1)
	in := w.inbox(&inbox.Options{Now: w.clock, Workers: 1, Batch: 32}, nil)
	mixed := 0
	in.HandleBatch(said.Topic, func(ctx context.Context, tx tx, ms []skald.Message) error {
		if slices.ContainsFunc(ms, func(m skald.Message) bool { return m.Type != ms[0].Type }) {
			mixed++
		}
		for i, m := range ms {
			if err := keep(ctx, tx, skald.Received[string]{Message: m, Value: string(m.Data)}); err != nil {
				return err
			}
			if string(m.Data) == `"5"` {
				return inbox.FailMessage(i, errors.New("no"))
			}
		}
		return nil
	}, said.Type, "other")
	for n := range 12 {
		m := w.message(fmt.Sprint("k", n), fmt.Sprint(n))
		if n%2 == 0 {
			m.Type = "other"
		}
		w.publish(m)
	}
	w.quiet(in)
	if kept := w.kept(); mixed == 0 || len(kept) != 1 || string(kept[0].Message.Data) != `"5"` ||
		in.Health().Handled != 11 {
		t.Errorf("%d mixed batches, kept %+v, health %+v", mixed, kept, in.Health())
	}
}

// No message waits for a batch to fill, and the waiting messages are divided among the workers.
func TestBatchDoesNotWaitForMessages(t *testing.T) {
	w := newWorld(t, 1)
	sizes, db := map[int]int{}, &begins{Driver: w.db}
	in := w.over(db, &inbox.Options{Now: w.clock, Workers: 4, Batch: 10},
		func(ctx context.Context, tx tx, m skald.Received[string]) error {
			sizes[db.n]++
			return keep(ctx, tx, m)
		})
	step := func(want int) {
		t.Helper()
		clear(sizes)
		if _, err := in.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, n := range sizes {
			if n != want {
				t.Errorf("%d messages share a transaction, want %d", n, want)
			}
		}
		if len(sizes) != 1 {
			t.Errorf("%d transactions", len(sizes))
		}
	}
	w.publish(w.message("a", "1"))
	step(1)
	for n := range 100 {
		w.publish(w.message(fmt.Sprint(n), "1"))
	}
	step(10)
	w.quiet(in)
	for n := range 8 {
		w.publish(w.message(fmt.Sprint(n), "1"))
	}
	step(3)
	w.quiet(in)
	for range 25 { // of one key
		w.publish(w.message("k", "1"))
	}
	step(10)
	w.quiet(in)
	w.expect("k", strings.TrimSpace(strings.Repeat(" 1", 25)))
}

// A handler of a batch sends COMMIT AND CHAIN, and a later one fails. The consumer ends, the error names the
// messages, and the next consumer handles each message once.
func TestCommitInABatchLosesNoNeighbor(t *testing.T) {
	t.Parallel()
	on, w := onPostgres(t), newWorld(t, 1)
	g := on(w)
	consumer := func(at func(m string, tx pgx.Tx) error) *inbox.Inbox[pgx.Tx] {
		in := inbox.New(g.db, w.bus, "stock", &inbox.Options{Now: w.clock, Workers: 1, Batch: 50})
		inbox.On(in, said, func(_ context.Context, tx pgx.Tx, m skald.Received[string]) error {
			return errors.Join(g.note(tx, "k"+m.Value, "done"), at(m.Value, tx))
		})
		return in
	}
	for i := range 6 {
		w.publish(w.message(fmt.Sprint("k", i), strconv.Itoa(i)))
	}
	first := consumer(func(m string, tx pgx.Tx) error {
		switch m {
		case "2":
			_, _ = tx.Exec(t.Context(), "COMMIT AND CHAIN")
		case "4":
			return errors.New("a failure")
		}
		return nil
	})
	w.quiet(first)
	if h := first.Health(); h.Dead != 1 {
		t.Errorf("%d dead letters, want the message that committed", h.Dead)
	}
	got := g.lists(t)
	for i := range 6 {
		want := "done"
		if i == 2 || i == 4 {
			want = ""
		}
		if key := fmt.Sprint("k", i); got[key] != want {
			t.Errorf("%s: %q, want %q", key, got[key], want)
		}
	}
}

// A rollback that hangs on the handler's context changes nothing after the handler's return.
func TestHandlerThatReturnedChangesNothing(t *testing.T) {
	t.Parallel()
	on, w := onPostgres(t), newWorld(t, 1)
	g := on(w)
	in := inbox.New(g.db, w.bus, "stock", &inbox.Options{Now: w.clock, Workers: 1, Batch: 50})
	inbox.On(in, said, func(ctx context.Context, tx pgx.Tx, m skald.Received[string]) error {
		if m.Value != "1" {
			time.Sleep(20 * time.Millisecond) // the rollback runs meanwhile
			return g.note(tx, "k"+m.Value, "done")
		}
		sp, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { _ = sp.Rollback(context.WithoutCancel(ctx)) })
		return g.note(sp, "k"+m.Value, "done")
	})
	for i := range 4 {
		w.publish(w.message(fmt.Sprint("k", i), strconv.Itoa(i)))
	}
	w.quiet(in)
	got := g.lists(t)
	for i := range 4 {
		if key := fmt.Sprint("k", i); got[key] != "done" {
			t.Errorf("%s: %q", key, got[key])
		}
	}
}

// After a rejection the messages of a batch have savepoints, so that further rejections repeat no handler.
// The writes of a rejected handler are rolled back, also after an error of its database. Its rejection and
// its events are stored.
func TestRejectionsRepeatNoNeighbour(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) { rejectionsRepeatNobody(t, onSQLite(t), nil) })
	t.Run("PostgreSQL", func(t *testing.T) {
		rejectionsRepeatNobody(t, onPostgres(t), func(tx pgx.Tx) {
			_, _ = tx.Exec(context.Background(), "SELECT 1/0")
		})
	})
}

func rejectionsRepeatNobody[TTx comparable](t *testing.T, open opening[TTx], fails func(TTx)) {
	w := newWorld(t, 1)
	on, runs := open(w), 0
	out := outbox.New(on.db, nil)
	event := skald.Event[string]{Topic: "answers", Type: "answered"}
	in := inbox.New(batchBugs(on.db), w.bus, "stock", &inbox.Options{Now: w.clock, Workers: 1, Batch: 50})
	inbox.On(in, said, func(ctx context.Context, tx TTx, m skald.Received[string]) error {
		runs++
		n, _ := strconv.Atoi(m.Value)
		if n%3 > 0 { // before or after another statement
			if err := out.Write(ctx, tx, event.New(string(m.Key), "handled")); err != nil {
				return err
			}
		}
		if n%20 != 4 || n%40 == 4 { // of a rejection, too, whose writes are undone
			if err := on.note(tx, string(m.Key), "done"); err != nil {
				return err
			}
		}
		if n%20 != 4 {
			return nil
		}
		if n%80 == 4 && fails != nil {
			fails(tx)
		}
		return skald.Reject(errors.New("no"),
			skald.Draft{Topic: "answers", Type: "no", Key: m.Key, Value: "no"})
	})
	const all = 400
	want := map[string]string{}
	for n := range all {
		key := fmt.Sprint("k", n)
		if n%20 != 4 {
			want[key] = "done"
		}
		w.publish(w.message(key, strconv.Itoa(n)))
	}
	w.quiet(in)
	if got := on.lists(t); !maps.Equal(got, want) {
		t.Errorf("the effects are %v, want %v", got, want)
	}
	if runs > all+50 {
		t.Errorf("%d messages cost %d runs of the handler", all, runs)
	}
	var ids []store.Identity
	for n := range all {
		ids = append(ids, store.Identity{Source: "/other", ID: fmt.Sprint("m-", n+1)})
	}
	seen, err := on.db.Seen(t.Context(), "stock", ids)
	if err != nil {
		t.Fatal(err)
	}
	tip, err := store.Snapshot(t.Context(), on.db, "")
	if err != nil {
		t.Fatal(err)
	}
	page, err := on.db.Pull(t.Context(), store.Window{Tip: tip}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	events := map[string]int{}
	for _, r := range page.Rows {
		events[r.Type]++
	}
	if events["no"] != all/20 || events["answered"] != 253 {
		t.Errorf("events: %v", events)
	}
	for n, v := range seen {
		if rejected := v.Outcome == store.Rejected && v.Reason == "no"; rejected != (n%20 == 4) {
			t.Errorf("message %d: %+v", n, v)
		}
	}
}
