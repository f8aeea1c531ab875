package main_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Whoever may only read can look: at lists, at one, and at what a verb would do. A verb that is meant says
// which right is missing, and a look at a database without tables that they are missing.
func TestReaderLooks(t *testing.T) {
	t.Parallel()
	b := onPostgres(t)
	looks := [][]string{{"saga", "list"}, {"saga", "show", "o-1"}, {"saga", "explain", "o-1"},
		{"saga", "graph", "o-1"}, {"saga", "holds"}, {"saga", "cancel", "o-1", "--dry-run"},
		{"saga", "pause", "--all", "--dry-run"}, {"status", "o-1"}, {"steps", "list"},
		{"dead", "list"}, {"dead", "groups"}, {"dead", "show", "m-2"}, {"dead", "export"},
		{"dead", "redrives"}, {"dead", "redrive", "--all", "--dry-run"},
		{"dead", "drop", "--all", "--dry-run"}, {"dead", "edit", "m-2", "--data", "1", "--dry-run"},
		{"parked", "list"}, {"parked", "release", "--all", "--dry-run"}, {"inbox", "status"},
		{"inbox", "show", "m-1", "--consumer", "stock"}, {"outbox", "status"},
		{"compensate", "o-1", "--dry-run"}, {"compensate", "--state", "running", "--dry-run"},
		{"consumer", "rename", "stock", "shelf", "--broker", "kafka://localhost:1", "--dry-run"},
		{"outbox", "write", "--topic", "t", "--type", "a", "--data", "1", "--caused-by", "m-2", "--dry-run"}}
	for _, args := range looks {
		start(t, b.env, args...).expect(5, "skald migrate")
	}
	b.migrate().idle([2]string{"order", "o-1"})
	keep := func(id string, dead *store.Death) store.Effect {
		return store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: "stock",
			Identity: store.Identity{Source: "/orders", ID: id},
			Message:  skald.Message{ID: id, Source: "/orders", Topic: "orders", Type: "order.placed"},
			Attempts: 3, Due: time.Hour, Last: store.Failure{At: time.Now(), Why: "no such column"},
			Dead: dead}}}
	}
	_, err := b.s.Apply(t.Context(), keep("m-1", nil),
		keep("m-2", &store.Death{At: time.Now(), Kind: "attempts", Fingerprint: "abc"}))
	must(t, err)
	sagaTook(t, b.db, b.s)
	conn, err := pgx.Connect(t.Context(), b.at)
	must(t, err)
	login := readerOf(t, conn)
	env := []string{"SKALD_STORE=" + as(t, b.at, login)}
	for _, args := range looks {
		start(t, env, args...).expect(0)
	}
	for _, args := range [][]string{{"saga", "cancel", "o-1"}, {"dead", "drop", "m-2"},
		{"parked", "release", "--all"}, {"compensate", "o-1"}} {
		start(t, env, slices.Concat(args, []string{"--yes", "--reason", "x"})...).expect(3, "missing right",
			"skald roles app")
	}
}

// readerOf is a login that has what skald roles reader prints.
func readerOf(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	user := logins(t, conn)
	for _, name := range user {
		do(t, conn, "CREATE ROLE "+name) // they are dropped at the end
	}
	p := start(t, nil, "roles", "reader", "--name", "reader="+user["reader"])
	p.expect(0)
	do(t, conn, p.out.String())
	do(t, conn, "ALTER ROLE "+user["reader"]+" LOGIN")
	return user["reader"]
}
