package main_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// How steps stand is listed and shown by the command: what took them, and what has undone or barred them.
func TestStepsByTheCommand(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	env := []string{"SKALD_STORE=sqlite:" + path}
	start(t, env, "steps", "list").expect(4)
	start(t, env, "migrate").expect(0)
	db, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	stepsAreTaken(t, sqlitestore.New(db, nil))
	stepsAreTold(t, env)
	start(t, env, "status", "b").expect(4, `this database has steps of a saga "b" (charge/2 at payment: done)`,
		"skald steps list --store", "--saga b; the database of its tracker or engine has its state")
	start(t, env, "parked", "list", "--consumer", "paymnt").expect(4, `this database has no consumer "paymnt"`)
	start(t, env, "steps").expect(2)
	start(t, env, "steps", "show").expect(2, "--saga")
	start(t, env, "steps", "show", "--saga", "none").expect(4, "saga none")
}

// stepsAreTaken takes the charges of orders a and b, and undoes those of a and c.
func stepsAreTaken[TTx any](t *testing.T, d store.Driver[TTx]) {
	t.Helper()
	for _, s := range []store.Step{
		{Saga: "a", State: store.StepDone, Identity: store.Identity{Source: "/orders", ID: "charge-a"}},
		{Saga: "b", Occurrence: "2", State: store.StepDone,
			Identity: store.Identity{Source: "/orders", ID: "charge-b"}},
		{Saga: "a", State: store.StepUndone, Identity: store.Identity{Source: "/orders", ID: "cancel-a"}},
		{Saga: "c", State: store.StepUndone, Identity: store.Identity{Source: "/orders", ID: "cancel-c"}},
	} {
		s.Consumer, s.Name = "payment", "charge"
		u, err := d.Begin(t.Context(), store.Intake{Steps: []store.Step{s}})
		if err != nil {
			t.Fatal(err)
		}
		var es []store.Effect
		if s.State == store.StepDone {
			s.Code, s.Result, s.From = 7, "receipt", []store.StepState{store.StepDone}
			es = append(es, store.Effect{Step: &s})
		}
		if err := u.Commit(context.WithoutCancel(t.Context()), es...); err != nil {
			t.Fatal(err)
		}
	}
}

func stepsAreTold(t *testing.T, env []string) {
	t.Helper()
	says := func(args []string, wants ...string) {
		t.Helper()
		p := start(t, env, args...)
		p.expect(0)
		said := strings.Join(strings.Fields(p.out.String()), " ")
		for _, want := range wants {
			if !strings.Contains(said, want) {
				t.Errorf("%v does not say %q: %s", args, want, said)
			}
		}
		if lines := strings.Count(p.out.String(), "\n"); args[1] == "list" && lines != len(wants) {
			t.Errorf("%v says %d lines, want %d: %s", args, lines, len(wants), &p.out)
		}
	}
	says([]string{"steps", "list"}, "consumer saga step state", "payment a charge undone",
		"payment b charge/2 done", "payment c charge barred")
	says([]string{"steps", "list", "--state", "barred", "--json"},
		`"saga":"c","step":"charge","occurrence":"","state":"barred","by_source":"/orders","by_id":"cancel-c"`)
	says([]string{"steps", "list", "--consumer", "payment", "--limit", "1", "--json"}, `"consumer":"payment","saga":`)
	says([]string{"steps", "show", "--saga", "a"}, "charge of a at payment: undone",
		"done by charge-a of /orders", "undone or barred by cancel-a of /orders", "answer 7 receipt")
	says([]string{"steps", "show", "--saga", "b", "--json"}, `"occurrence":"2"`, `"code":7`,
		`"result":"cmVjZWlwdA=="`)
}

func TestStepsByTheCommandOnPostgreSQL(t *testing.T) {
	t.Parallel()
	at, _ := postgres(t)
	env := []string{"SKALD_STORE=" + at}
	start(t, env, "steps", "list").expect(5)
	start(t, env, "migrate").expect(0)
	pool, err := pgxpool.New(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	stepsAreTaken(t, pgstore.New(pool, nil))
	stepsAreTold(t, env)
}
