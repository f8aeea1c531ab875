package saga_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// part is one step of a score: its predecessors, whether it is skipped or waits for a signal, and how
// often it fails before it succeeds.
type part struct {
	after     []int
	skip      bool
	wait      bool
	how       string // error, panic or reject; "" if it does not fail
	fails     int
	undoFails int
}

// score is a random definition, and the events of its saga: the turns of the engine with signals or a
// cancellation.
type score struct {
	parts    []part
	pivot    int           // negative if there is none
	deadline time.Duration // 0 if there is none
	signals  []int         // for each part
	cancel   int           // negative for none
}

func scores(t *rapid.T) score {
	n := rapid.IntRange(1, 6).Draw(t, "steps")
	s := score{pivot: rapid.IntRange(-n, n-1).Draw(t, "pivot"),
		cancel: rapid.IntRange(-6, 5).Draw(t, "cancel")}
	if rapid.IntRange(0, 2).Draw(t, "has a deadline") == 0 {
		s.deadline = time.Duration(rapid.IntRange(0, 8).Draw(t, "deadline"))*time.Second + time.Second/2
	}
	for i := range n {
		s.signals = append(s.signals, rapid.IntRange(0, 6).Draw(t, "signal"))
		p := part{wait: i != s.pivot && rapid.IntRange(0, 4).Draw(t, "wait") == 0, skip: i != s.pivot &&
			rapid.IntRange(0, 4).Draw(t, "skip") == 0, undoFails: rapid.IntRange(0, 2).Draw(t, "undo fails")}
		for j := range i {
			if i == s.pivot || j == s.pivot || rapid.Bool().Draw(t, "after") {
				p.after = append(p.after, j)
			}
		}
		if !p.wait && rapid.IntRange(0, 2).Draw(t, "fail") == 0 {
			hows := []string{"error", "panic", "reject"}
			if s.pastPivot(i) {
				hows = hows[:2]
			}
			p.how, p.fails = rapid.SampledFrom(hows).Draw(t, "how"), rapid.IntRange(1, 4).Draw(t, "fails")
		}
		s.parts = append(s.parts, p)
	}
	return s
}

func (s score) pastPivot(i int) bool { return s.pivot >= 0 && i > s.pivot }

// turnsBack reports whether a part turns the saga back once it begins: before the pivot the third attempt
// is the last.
func (s score) turnsBack(i int) bool {
	p := s.parts[i]
	return !p.skip && !s.pastPivot(i) && (p.how == "reject" || p.fails >= oracleTries)
}

const oracleTries = 3

func partName(i int) string { return string(rune('a' + i)) }

// pivoted reports whether the pivot is done.
func (s score) pivoted(notes []string) bool {
	return s.pivot >= 0 && slices.Contains(notes, partName(s.pivot))
}

// judge is the model. It returns an error if the end of the saga, or the order of its notes, is impossible.
// Turned means that a cancellation or the deadline turned the saga back.
func (s score) judge(status string, notes []string, turned bool) error {
	want := "done"
	for i := range s.parts {
		if turned || s.turnsBack(i) {
			want = "compensated"
		}
	}
	if status != want {
		return fmt.Errorf("it is %s, want %s", status, want)
	}
	var did, left, came []string // in the order of their beginning; those not undone; signals
	for _, note := range notes {
		name, undo := strings.CutPrefix(note, "undo ")
		name, signal := strings.CutPrefix(name, "signal ")
		i := int(name[0] - 'a')
		switch {
		case signal:
			came = append(came, name)
		case undo && (!slices.Contains(left, name) || slices.ContainsFunc(left, func(other string) bool {
			return slices.Contains(s.parts[other[0]-'a'].after, i)
		})): // parallel steps are undone in reverse order; the notes do not contain that order
			return fmt.Errorf("%s is undone, and of %v these are left: %v", name, did, left)
		case undo:
			left = slices.DeleteFunc(left, func(other string) bool { return other == name })
		case len(left) < len(did), slices.Contains(did, name), s.parts[i].skip, s.turnsBack(i):
			return fmt.Errorf("%s takes effect behind %v", name, notes)
		default:
			for _, j := range s.parts[i].after {
				if !s.parts[j].skip && !slices.Contains(append(did, came...), partName(j)) {
					return fmt.Errorf("%s takes effect before %s", name, partName(j))
				}
			}
			did, left = append(did, name), append(left, name)
		}
	}
	for i, p := range s.parts {
		if want == "done" && !p.skip && !p.wait && !slices.Contains(left, partName(i)) {
			return fmt.Errorf("it is done without %s", partName(i))
		}
	}
	if want == "compensated" && len(left) > 0 {
		return fmt.Errorf("it is compensated, and %v are left", left)
	}
	return nil
}

// oracle has sagas on one store.
type oracle[TTx any] struct {
	db    engine.DB[TTx]
	lists store.Lister
	now   func() time.Time // nil: the real clock
	later func()           // makes retries due
	in    func(ctx context.Context, f func(tx TTx) error) error
	note  func(ctx context.Context, tx TTx, key, what string) error
	notes func(ctx context.Context, key string) ([]string, error)
}

func (o *oracle[TTx]) definition(s score) *saga.Definition[string] {
	var steps []*saga.Step[string, string]
	for i, p := range s.parts {
		name := partName(i)
		do := func(ctx context.Context, tx TTx, r saga.Run[string]) (string, error) {
			if err := o.note(ctx, tx, r.Key, name); err != nil || r.Attempt > p.fails {
				return name, err
			}
			switch p.how {
			case "panic":
				panic("oh")
			case "reject":
				return "", skald.Reject(errors.New("no"))
			}
			return "", errors.New("not this time")
		}
		undo := func(ctx context.Context, tx TTx, r saga.Run[string], out string) error {
			if err := o.note(ctx, tx, r.Key, "undo "+out); err != nil || r.Attempt > p.undoFails {
				return err
			}
			return errors.New("not this time")
		}
		soon := saga.Policy{InitialInterval: time.Millisecond, MaxInterval: time.Millisecond}
		opts := []saga.Option{saga.RetryUndo(soon), saga.When(func(saga.Run[string]) bool { return !p.skip })}
		if i == s.pivot {
			opts = append(opts, saga.Pivot())
		}
		if s.pastPivot(i) {
			undo = nil
		} else {
			soon.Attempts = oracleTries
		}
		if len(p.after) == 0 {
			opts = append(opts, saga.AtStart())
		} else {
			var after []saga.Handle
			for _, j := range p.after {
				after = append(after, steps[j])
			}
			opts = append(opts, saga.After(after...))
		}
		if p.wait {
			steps = append(steps, saga.Wait[string](name, signalOf(i), opts[1:]...))
		} else {
			steps = append(steps, saga.Do(name, do, undo, append(opts, saga.Retry(soon))...))
		}
	}
	handles := make([]saga.StepOf[string], len(steps))
	for i, one := range steps {
		handles[i] = one
	}
	return saga.New("oracle", &saga.Options[string]{Key: func(key string) string { return key },
		Deadline: s.deadline}, handles...)
}

func signalOf(i int) saga.Signal[string] { return saga.Signal[string]{Name: "go " + partName(i)} }

// play runs a saga to its end, and lets the model judge it.
func (o *oracle[TTx]) play(ctx context.Context, s score, key string) error {
	d := o.definition(s)
	e, err := saga.NewEngine(o.db, &saga.EngineOptions{Now: o.now, Logger: slog.New(slog.DiscardHandler)}, d)
	if err != nil {
		return err
	}
	if err := o.in(ctx, func(tx TTx) error {
		_, err := saga.Bind(e, d).Start(ctx, tx, key)
		return err
	}); err != nil {
		return err
	}
	turned, begun := false, time.Time{}
	if s.deadline > 0 {
		begun = o.now()
	}
	for n, end := 0, time.Now().Add(time.Minute); ; n++ {
		if n > 0 {
			o.later()
		}
		notes, err := o.notes(ctx, key)
		if err != nil {
			return err
		}
		late := !turned && s.deadline > 0 && o.now().Sub(begun) > s.deadline && !s.pivoted(notes)
		if late {
			n = max(n, 100) // a signal of this turn could still be in time; no later one comes
		}
		cancelled, err := befall(ctx, o, e, d, s, key, n)
		if err == nil && n == s.cancel && cancelled == s.pivoted(notes) {
			err = errors.New("a cancellation counts before the pivot, and not after it")
		}
		if err != nil {
			return fmt.Errorf("%+v, turn %d: %w (%v)", s, n, err, notes)
		}
		turned = turned || cancelled || late
		if _, err := e.Step(ctx); err != nil {
			return err
		}
		ss, err := store.ListSagas(ctx, o.lists, store.SagaQuery{Name: "oracle", Key: key})
		if err != nil || len(ss) != 1 {
			return fmt.Errorf("%d sagas, %w", len(ss), err)
		}
		if ss[0].Ended.IsZero() && time.Now().Before(end) {
			continue
		}
		if notes, err = o.notes(ctx, key); err == nil {
			err = s.judge(ss[0].Status, notes, turned)
		}
		if err != nil {
			return fmt.Errorf("%+v: %w (at %s: %s; %v)", s, err, ss[0].Step, ss[0].Error, notes)
		}
		return nil
	}
}

// befall sends the signals of a turn, and cancels the saga if the score requires it.
func befall[TTx any](ctx context.Context, o *oracle[TTx], e *saga.Engine[TTx], d *saga.Definition[string],
	s score, key string, n int) (cancelled bool, err error) {
	if n == s.cancel {
		err = errors.Join(err, o.in(ctx, func(tx TTx) error {
			got, err := saga.Bind(e, d).Cancel(ctx, tx, key, "no more")
			cancelled = got != saga.TooLate
			return err
		}))
	}
	for i, at := range s.signals {
		if at == n && s.parts[i].wait {
			err = errors.Join(err, o.in(ctx, func(tx TTx) error {
				_, err := signalOf(i).Send(ctx, saga.Bind(e, d).In(tx), key, "go")
				return errors.Join(err, o.note(ctx, tx, key, "signal "+partName(i)))
			}))
		}
	}
	return cancelled, err
}

// TestOracle: the engine brings random sagas to the end that the model predicts. Their steps are rejected,
// fail, panic, wait for signals and are skipped, in parallel and in sequence, around a pivot. Their undos
// fail, they are cancelled, and their deadlines pass.
func TestOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Now()
		db := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
		o := &oracle[tx]{db: db, lists: db, now: func() time.Time { return now },
			later: func() { now = now.Add(time.Second) },
			in: func(_ context.Context, f func(tx tx) error) error {
				tx := db.BeginTx()
				return errors.Join(f(tx), tx.Commit())
			},
			note: func(_ context.Context, tx tx, key, what string) error {
				return tx.Update(key, func(old string, _ bool) string { return old + what + "\n" })
			},
			notes: func(_ context.Context, key string) (out []string, err error) {
				for line := range strings.Lines(db.User()[key]) {
					out = append(out, strings.TrimSpace(line))
				}
				return out, nil
			}}
		if err := o.play(t.Context(), scores(t), "a"); err != nil {
			t.Fatal(err)
		}
	})
}

// some plays random sagas on a server or a file. Each run has different ones.
func some[TTx any](t *testing.T, o *oracle[TTx]) {
	t.Helper()
	o.later = func() {}
	seed := int(time.Now().UnixNano() % 1e9)
	for i := range 20 {
		s := rapid.Custom(scores).Example(seed + i)
		s.deadline = 0 // the clock of the store cannot be moved
		if err := o.play(t.Context(), s, fmt.Sprint("k", i)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOracleOnSQLite(t *testing.T) {
	db := opened(t, t.TempDir(), "oracle")
	_, err := sqlitestore.Migrate(t.Context(), db, nil)
	if err == nil {
		_, err = db.ExecContext(t.Context(),
			"CREATE TABLE notes (n INTEGER PRIMARY KEY, key TEXT, what TEXT)")
	}
	if err != nil {
		t.Fatal(err)
	}
	s, x := sqlitestore.New(db, nil), &exits{t: t}
	some(t, &oracle[*sql.Tx]{db: s, lists: s,
		in: func(ctx context.Context, f func(tx *sql.Tx) error) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			return errors.Join(f(tx), tx.Commit())
		},
		note: func(ctx context.Context, tx *sql.Tx, key, what string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO notes (key, what) VALUES (?, ?)", key, what)
			return err
		},
		notes: func(_ context.Context, key string) ([]string, error) {
			return x.texts(db, "SELECT what FROM notes WHERE key = ? ORDER BY n", key), nil
		}})
}

func TestOracleOnPostgres(t *testing.T) {
	pool, s, schema := onPostgres(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE "+schema+
		".notes (n bigserial, key text, what text)"); err != nil {
		t.Fatal(err)
	}
	some(t, &oracle[pgx.Tx]{db: s, lists: s,
		in: func(ctx context.Context, f func(tx pgx.Tx) error) error { return pgx.BeginFunc(ctx, pool, f) },
		note: func(ctx context.Context, tx pgx.Tx, key, what string) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+schema+".notes (key, what) VALUES ($1, $2)", key, what)
			return err
		},
		notes: func(ctx context.Context, key string) ([]string, error) {
			rows, err := pool.Query(ctx, "SELECT what FROM "+schema+".notes WHERE key = $1 ORDER BY n", key)
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, pgx.RowTo[string])
		}})
}
