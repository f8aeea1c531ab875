package saga_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

var (
	midway  = saga.Signal[bool]{Name: "midway"}
	further = saga.Signal[bool]{Name: "further"}
)

// kin is a set of parents and children on SQLite, whose engine the test steps.
type kin struct {
	t     *testing.T
	file  *sql.DB
	db    *sqlitestore.Store
	e     *saga.Engine[*sql.Tx]
	glued bool // undos of children fail
	short bool // the child of "late" is rejected
	blind bool // no child can be started
	tries int  // of the child of "late"
	all   map[string]*saga.Definition[trip]
}

// newKin returns parents with one step before their child. In "outer" the child can be undone. In "outer
// final" the child is the pivot. In "late" the child comes after the pivot.
func newKin(t *testing.T) *kin {
	t.Helper()
	k := &kin{t: t, file: opened(t, t.TempDir(), "sagas"), all: map[string]*saga.Definition[trip]{}}
	if _, err := sqlitestore.Migrate(t.Context(), k.file, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := k.file.ExecContext(t.Context(), "CREATE TABLE ledger (key TEXT, step TEXT)"); err != nil {
		t.Fatal(err)
	}
	k.db = sqlitestore.New(k.file, nil)
	def := func(name string, steps ...saga.StepOf[trip]) *saga.Definition[trip] {
		k.all[name] = saga.New(name, &saga.Options[trip]{Key: tripKey}, steps...)
		return k.all[name]
	}
	same := func(r saga.Run[trip]) trip {
		if k.blind {
			panic("it has no input")
		}
		return r.In
	}
	again := func(r saga.Run[trip]) trip {
		k.tries++
		return trip{r.Key, map[string]string{"try": fmt.Sprint(k.tries)}}
	}
	pivot := func(name string) *saga.Step[trip, string] {
		return saga.Do(name, k.writes(name), nil, saga.Pivot())
	}
	mid := saga.Wait[trip]("mid", midway)
	inner := def("inner", k.step("x"), mid)
	final := def("inner final", k.step("x"), pivot("no way back"), mid)
	picky := def("picky", saga.Do("y", k.writes("y"), nil, saga.NoEffect()))
	last := saga.Wait[trip]("last", further)
	rarely := saga.Retry(saga.Policy{InitialInterval: time.Hour, MaxInterval: time.Hour})
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := saga.NewEngine(k.db, &saga.EngineOptions{Logger: log},
		def("outer", k.step("a"), saga.Child("c", inner, same, rarely), last),
		def("outer final", k.step("a"), saga.Child("c", final, same, saga.Pivot()), last),
		def("late", k.step("a"), pivot("pay"), saga.Child("c", picky, again)))
	if err != nil {
		t.Fatal(err)
	}
	k.e = e
	return k
}

func (k *kin) writes(name string) func(context.Context, *sql.Tx, saga.Run[trip]) (string, error) {
	return func(ctx context.Context, tx *sql.Tx, r saga.Run[trip]) (string, error) {
		if name == "y" && k.short {
			return "", skald.Reject(errors.New("out of stock"))
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES (?, ?)", r.Key, name)
		return name, err
	}
}

func (k *kin) step(name string) *saga.Step[trip, string] {
	return saga.Do(name, k.writes(name),
		func(ctx context.Context, tx *sql.Tx, r saga.Run[trip], out string) error {
			if k.glued && name == "x" {
				return skald.Permanent(errors.New("it is glued"))
			}
			_, err := tx.ExecContext(ctx, "DELETE FROM ledger WHERE key = ? AND step = ?", r.Key, out)
			return err
		})
}

func (k *kin) settle() {
	k.t.Helper()
	for range 1000 {
		busy, err := k.e.Step(k.t.Context())
		if err != nil {
			k.t.Fatal(err)
		}
		if !busy {
			return
		}
	}
	k.t.Fatal("it never gets idle")
}

func (k *kin) start(name, key string) {
	k.t.Helper()
	tx, err := k.file.BeginTx(k.t.Context(), nil)
	if err == nil {
		_, err = saga.Bind(k.e, k.all[name]).Start(k.t.Context(), tx, trip{ID: key})
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		k.t.Fatal(err)
	}
	k.settle()
}

// does lets an operator change a saga. No engine is running then.
func (k *kin) does(verb operate.SagaVerb, name, step, data string) {
	k.t.Helper()
	c := operate.SagaChange{Verb: verb, Step: step}
	if data != "" {
		c.Data = json.RawMessage(data)
	}
	r, err := operate.ChangeSagas(k.t.Context(), k.db, operate.SagaSelection{Name: name, Key: "k"}, c,
		operate.Order{Author: "ann", Reason: "test"})
	if err != nil {
		k.t.Fatalf("%s %s %s: %+v, %v", verb, name, step, r, err)
	}
}

func (k *kin) row(name string) store.Saga {
	k.t.Helper()
	ss, err := store.ListSagas(k.t.Context(), k.db, store.SagaQuery{Name: name, Key: "k"})
	if err != nil {
		k.t.Fatal(err)
	}
	if len(ss) == 0 {
		return store.Saga{}
	}
	return ss[0]
}

// state returns the state of a saga. It reports a saga that waits for a child which has ended, because such a
// saga waits forever.
func (k *kin) state(name, child string) string {
	k.t.Helper()
	s, err := operate.ReadSaga(k.t.Context(), k.db, name, "k")
	if err != nil {
		k.t.Fatal(err)
	}
	d := s.Detail(false)
	text := d.Status
	if d.Stuck {
		text += ", stuck: " + d.Error
	}
	for _, r := range d.Runs {
		if waits := r.Phase == "waiting" || r.Phase == "undoing"; waits && r.Step == "c" && !r.Stuck {
			text += ", waits"
			if is := k.row(child); is.Name == "" || !is.Ended.IsZero() {
				k.t.Errorf("%s waits for a child that is %q, ended at %v", name, is.Status, is.Ended)
			}
		}
	}
	return text
}

func (k *kin) ledger() (out string) {
	k.t.Helper()
	if err := k.file.QueryRowContext(k.t.Context(),
		"SELECT coalesce(group_concat(step, ' ' ORDER BY step), '') FROM ledger").Scan(&out); err != nil {
		k.t.Fatal(err)
	}
	return out
}

// childStands is the state that a child has when its parent turns back.
type childStands struct {
	final   bool                       // the child is the parent's pivot
	does    func(k *kin, inner string) // brings the child into the state
	settled string                     // the parent if cancelled while it waited; "": it does not wait
	undone  string                     // the parent if an operator completed the step; "": past its pivot
	rows    string                     // in the ledger at the end
	free    func(k *kin, inner string) // lets the child continue
	then    string                     // the parent at the end
}

func childrenStand() map[string]childStands {
	const gone = "compensating, stuck: the child inner \"k\" was deleted"
	turn := func(k *kin, inner string) {
		k.does(operate.CancelSaga, inner, "", "")
		k.settle()
	}
	glue := func(k *kin, inner string) {
		k.glued = true
		turn(k, inner)
	}
	byHand := func(k *kin, inner string) { k.does(operate.CompleteSaga, inner, "mid", "true") }
	return map[string]childStands{
		"runs": {settled: "compensated", undone: "compensated"},
		"is past its pivot": {final: true, settled: "compensating, waits", rows: "a no way back x",
			free: byHand, then: "running"},
		"is paused": {
			does:    func(k *kin, inner string) { k.does(operate.PauseSaga, inner, "", "") },
			settled: "compensating, waits", undone: "compensating, waits", rows: "a x",
			free: func(k *kin, inner string) {
				k.does(operate.ResumeSaga, inner, "",
					"")
			}, then: "compensated"},
		"is stuck on its way back": {does: glue, settled: "compensating, waits",
			undone: "compensating, waits",
			rows:   "a x", free: func(k *kin, inner string) { k.does(operate.SkipSaga, inner, "x", "") },
			then: "compensated"},
		"turned back": {does: turn, undone: "compensated"},
		"turned back by hand, which is not told yet": {does: func(k *kin, inner string) {
			glue(k, inner)
			k.does(operate.SkipSaga, inner, "x", "")
		}, settled: "compensated", undone: "compensated", rows: "x"},
		"is done": {does: func(k *kin, inner string) {
			byHand(k, inner)
			k.settle()
		}, undone: "compensated"},
		"is done, which is not told yet": {does: byHand, settled: "compensated", undone: "compensated"},
		"is done past its pivot, which is not told yet": {final: true, does: byHand, settled: "running",
			rows: "a no way back x"},
		"is gone": {does: func(k *kin, inner string) {
			if _, err := k.file.ExecContext(k.t.Context(), "DELETE FROM skald_saga WHERE name = ?",
				inner); err != nil {
				k.t.Fatal(err)
			}
		}, settled: gone, undone: gone, rows: "a x",
			free: func(k *kin, _ string) { k.does(operate.SkipSaga, "outer", "c", "") }, then: "compensated"},
	}
}

// TestParentWaitsOnlyForAnUnreportedEnd: a parent that turns back waits for a child only if the child's end
// is still to come, in each state of the child, even if an operator completed the step before.
func TestParentWaitsOnlyForAnUnreportedEnd(t *testing.T) {
	for name, c := range childrenStand() {
		if c.settled != "" {
			t.Run(name, func(t *testing.T) { c.check(t, false, c.settled) })
		}
		if c.undone != "" {
			t.Run(name+", completed by hand", func(t *testing.T) { c.check(t, true, c.undone) })
		}
	}
}

func (c *childStands) check(t *testing.T, completed bool, want string) {
	t.Parallel()
	k, outer, inner := newKin(t), "outer", "inner"
	if c.final {
		outer, inner = outer+" final", inner+" final"
	}
	k.start(outer, "k")
	if completed {
		k.does(operate.CompleteSaga, outer, "c", "null")
		k.settle()
	}
	if c.does != nil {
		c.does(k, inner)
	}
	k.does(operate.CancelSaga, outer, "", "")
	k.settle()
	if got := k.state(outer, inner); got != want {
		t.Errorf("it is %s; want %s", got, want)
	}
	if got := k.ledger(); got != c.rows {
		t.Errorf("left is %q, want %q", got, c.rows)
	}
	if c.free == nil {
		return
	}
	c.free(k, inner)
	k.settle()
	if got := k.state(outer, inner); got != c.then {
		t.Errorf("after that it is %s; want %s", got, c.then)
	}
}

// TestRetryOfARejectedChild: a child that is rejected past the pivot makes its parent stuck. A retry
// starts another child in its place, even with another input. A rejected child has no effect, so its step
// can be skipped.
func TestRetryOfARejectedChild(t *testing.T) {
	for _, verb := range []operate.SagaVerb{operate.RetrySaga, operate.SkipSaga} {
		k := newKin(t)
		k.short = true
		k.start("late", "k")
		was := k.row("picky")
		k.does(operate.RetrySaga, "late", "c", "")
		k.settle()
		if got := k.state("late",
			"picky"); got != "running, stuck: the pivot is passed, so the saga cannot "+
			"turn back after the refusal: it turned back: rejected at y: rejected: out of stock" {
			t.Errorf("it is %s", got)
		}
		is := k.row("picky")
		if is.ID == was.ID || is.Input == was.Input || is.Status != "compensated" || is.Ended.IsZero() {
			t.Errorf("the child was %+v, and is %+v", was, is)
		}
		k.short = false
		k.does(verb, "late", "c", "")
		k.settle()
		want := map[operate.SagaVerb]string{operate.RetrySaga: "a pay y", operate.SkipSaga: "a pay"}[verb]
		if got := k.state("late", "picky"); got != "done" || k.ledger() != want {
			t.Errorf("after %s it is %s, and left is %q", verb, got, k.ledger())
		}
	}
}

// TestUndoOfAChildThatWasNeverStarted: if a step was completed by hand before its child started, an
// operator undoes the work instead.
func TestUndoOfAChildThatWasNeverStarted(t *testing.T) {
	for _, data := range []string{"null", `{"ID":"x","Key":"k"}`} {
		k := newKin(t)
		k.blind = true
		k.start("outer", "k")
		k.does(operate.CompleteSaga, "outer", "c", data)
		k.settle()
		k.does(operate.CancelSaga, "outer", "", "")
		k.settle()
		if got := k.state("outer",
			"inner"); got != "compensating, stuck: permanent: it was completed by hand, "+
			"and no child was started: undo what was done instead, then skip its undo" {
			t.Errorf("%s: it is %s", data, got)
		}
		k.does(operate.SkipSaga, "outer", "c", "")
		k.settle()
		if got := k.state("outer", "inner"); got != "compensated" || k.ledger() != "" {
			t.Errorf("%s: it is %s, and left is %q", data, got, k.ledger())
		}
	}
}
