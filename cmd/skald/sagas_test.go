package main_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

// A saga that is stuck is listed, explained, drawn and freed by the command, while an engine runs.
func TestSagasByTheCommand(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	env := []string{"SKALD_STORE=sqlite:" + path}
	start(t, env, "saga", "list").expect(4)
	start(t, env, "migrate").expect(0)
	start(t, env, "saga", "list").expect(0)
	file, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	db := sqlitestore.New(file, nil)
	var mended atomic.Bool
	pay := saga.Do("pay",
		func(context.Context, *sql.Tx, saga.Run[string]) (string, error) { return "r-1", nil }, nil,
		saga.Pivot())
	ship := saga.Do("ship", func(_ context.Context, _ *sql.Tx, r saga.Run[string]) (string, error) {
		switch {
		case mended.Load():
		case r.Attempt == 1:
			return "", errors.New("no driver")
		default:
			return "", skald.Permanent(errors.New("no van"))
		}
		return "by van", nil
	}, nil, saga.Retry(saga.Policy{InitialInterval: time.Millisecond}))
	wait := saga.Wait[string]("approve", saga.Signal[bool]{Name: "approved"})
	d := saga.New("order", &saga.Options[string]{Key: func(s string) string { return s },
		Deadline: 24 * time.Hour}, wait, pay, ship)
	e, err := saga.NewEngine(db, nil, d)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"o-1", "o-2"} {
		tx, err := file.BeginTx(t.Context(), nil)
		if err == nil {
			_, err = saga.Bind(e, d).Start(t.Context(), tx, key)
		}
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	says := func(words []string, args ...string) {
		t.Helper()
		p := start(t, env, append([]string{"saga"}, args...)...)
		p.expect(0)
		for _, w := range words {
			if !strings.Contains(p.out.String(), w) {
				t.Errorf("skald saga %v does not say %q:\n%s", args, w, &p.out)
			}
		}
	}
	awaits := func(key string, is func(s store.Saga) bool) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
			ss, err := store.ListSagas(t.Context(), db, store.SagaQuery{Key: key})
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("%s does not come to that: %+v, %v", key, ss, err)
			}
			if len(ss) == 1 && is(ss[0]) {
				return
			}
		}
	}
	awaits("o-1", func(s store.Saga) bool { return s.Session == "" && s.Step == "approve" })
	start(t, env, "saga", "signal", "o-1", "--signal", "approved").expect(2, "--reason")
	for _, args := range [][]string{{"signal", "o-1", "--signal", "approved"}, {"complete", "o-1", "--step",
		"approve", "--data", `"yes"`}, {"complete", "o-1", "--step", "approve", "--dry-run"}} {
		wrong := start(t, env, slices.Concat([]string{"saga"}, args, []string{"--reason", "by mistake"})...)
		if wrong.expect(2); !strings.Contains(wrong.out.String(), "is bool") {
			t.Errorf("%v: %s", args, &wrong.out)
		}
	}
	for _, words := range [][]string{{`no signal "aproved": its signals are approved`, "aproved"},
		{`its step approve has no occurrences`, "approved", "--occurrence", "x"}} {
		no := start(t, env, append([]string{"saga", "signal", "o-1", "--data", "true", "--reason", "x",
			"--signal"}, words[1:]...)...)
		if no.expect(2); !strings.Contains(no.out.String(), words[0]) {
			t.Errorf("it does not say %q: %s", words[0], &no.out)
		}
	}
	says([]string{"signal: 1 of 1 sagas changed"}, "signal", "o-1", "--signal", "approved", "--data", "true",
		"--reason", "ann says yes")
	awaits("o-1", func(s store.Saga) bool { return s.Stuck })
	says([]string{"o-1", "running, stuck", "no van"}, "list", "--stuck")
	says([]string{"ship is stuck", "no van", "skald saga retry --store 'sqlite:" + path +
		"' --step ship --reason '…' -- order o-1"}, "explain", "o-1")
	free := "skald saga retry --store 'sqlite:" + path + "' --reason 'the cause is gone' -- order o-1"
	tells := func(words []string, args ...string) {
		t.Helper()
		p := start(t, env, append([]string{"status"}, args...)...)
		p.expect(0)
		for _, w := range words {
			if text := strings.Join(strings.Fields(p.out.String()), " "); !strings.Contains(text, w) {
				t.Errorf("skald status %v does not say %q:\n%s", args, w, text)
			}
		}
	}
	tells([]string{"order o-1: running, stuck", " pay ", " ship is running, stuck: permanent: no van",
		"is stuck after it failed 2 times", "to unblock " + free, "nothing undoes pay"}, "o-1")
	tells([]string{"order o-1 has been running since", "ship is stuck",
		"remove the cause, and then run: " + free}, "o-1", "--explain")
	tells([]string{"order o-2: running", "waits for the signal approved, since",
		"remains approve, pay, ship", " deadline in ",
		"then it turns back, unless its pivot is done"}, "o-2")
	tells([]string{`"style":"orchestrated"`, `"stuck":true`}, "o-1", "--explain", "--json")
	start(t, env, "status", "o-1", "--trace-url", "traces/{trace}").expect(2, "give an http or https URL")
	says([]string{"r-1", "step ship", "step ship failed, at ", "Z: no driver\n", "Z: permanent: no van\n"},
		"show", "order", "o-1", "--data")
	says([]string{`"failures":[{"at":"`, `"error":"no driver"},{"at":"`}, "show", "order", "o-1", "--json")
	says([]string{"stuck"}, "graph", "o-1")
	says([]string{"<svg"}, "graph", "o-1", "--form", "svg")
	says([]string{`"status":"running"`}, "list", "--json", "--name", "order")
	definitions := filepath.Join(t.TempDir(), "sagas.json")
	out, err := os.Create(definitions)
	if err == nil {
		err = errors.Join(saga.Write(out, d), out.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	says([]string{"2 of 2 sagas can continue"}, "check", "--definitions", definitions)
	once, err := os.ReadFile(definitions)
	must(t, err)
	must(t, os.WriteFile(definitions, slices.Concat(once, once), 0o600))
	start(t, env, "saga", "check", "--definitions", definitions).expect(2, "the file has text after them")
	says([]string{"retry: 1 of 1 sagas would be changed"}, "retry", "--stuck", "--dry-run")
	mended.Store(true)
	says([]string{"retry: 1 of 1 sagas changed; run saga-retry-"}, "retry", "--stuck", "--yes", "--reason",
		"there is a van")
	awaits("o-1", func(s store.Saga) bool { return s.Status == "done" })
	says([]string{"cancel: 1 of 1"}, "cancel", "o-2", "--reason", "nobody wants it")
	awaits("o-2", func(s store.Saga) bool { return s.Status == "compensated" })
	start(t, env, "saga", "cancel", "o-1", "--reason", "too late").expect(5, "left unchanged")
	says7 := func(word string, args ...string) {
		t.Helper()
		p := start(t, env, slices.Concat([]string{"saga"}, args, []string{"--reason", "again"})...)
		if p.expect(7, "left unchanged"); !strings.Contains(p.out.String(), "o-1 is left: "+word) {
			t.Errorf("%v: it does not say %q: %s", args, word, &p.out)
		}
	}
	says7("nothing changes: the saga is in this state already", "signal", "o-1", "--signal", "approved", "--data", " true")
	says7("this signal arrived before with another value: the saga keeps the first value, and ignored this one", "signal",
		"o-1", "--signal", "approved", "--data", "false")
	says7("approve is done already with another output", "complete", "o-1", "--step", "approve", "--data",
		"false")
	ended := start(t, env, "saga", "retry", "o-1", "--reason", "x")
	if ended.expect(5); !strings.Contains(ended.out.String(), "o-1 is left: it has ended: done") {
		t.Errorf("it says %s", &ended.out)
	}
	start(t, env, "saga", "list", "--name", "ordr").expect(4, `no saga "ordr"`, "it has order")
	start(t, env, "saga", "list", "--name", "order", "--stuck").expect(0)
	start(t, env, "saga", "show", "o-9").expect(4, `there is no saga "o-9"`)
	start(t, env, "saga", "cancel", "--reason", "all of them").expect(2, "cancel which sagas?", "--all")
	start(t, env, "saga").expect(2)
}

// A parent says of the child that it waits for which it is, how that stands, and what to type for more.
func TestExplainAChild(t *testing.T) {
	onEachStore(t, func(t *testing.T, fresh func(*testing.T) *bed) {
		b := fresh(t).migrate()
		byKey := &saga.Options[string]{Key: func(s string) string { return s }}
		inner := saga.New("inner", byKey, saga.Wait[string]("approve", saga.Signal[bool]{Name: "approved"}))
		outer := saga.New("outer", byKey, saga.Child("inside", inner,
			func(r saga.Run[string]) string { return "in-" + r.Key }))
		e, err := saga.NewEngine(b.s, nil, outer)
		must(t, err)
		tx, err := b.db.BeginTx(t.Context(), nil)
		must(t, err)
		_, err = saga.Bind(e, outer).Start(t.Context(), tx, "o-1")
		must(t, err)
		must(t, tx.Commit())
		for busy := true; busy; {
			busy, err = e.Step(t.Context())
			must(t, err)
		}
		p := start(t, b.env, "saga", "explain", "o-1")
		p.expect(0)
		for _, want := range []string{"inside waits for its child since ",
			" Its child inner in-o-1 is running, at approve. More: skald saga explain", " -- inner in-o-1\n"} {
			if !strings.Contains(p.out.String(), want) {
				t.Errorf("%s, want %s", &p.out, want)
			}
		}
	})
}
