package main_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

// Who is on call finds the saga that is stuck from one that waits for its entity, and from the entity.
func TestHoldsByTheCommand(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	env := []string{"SKALD_STORE=sqlite:" + path}
	start(t, env, "migrate").expect(0)
	start(t, env, "saga", "holds").expect(0)
	file, err := sqlitestore.Open(path)
	must(t, err)
	defer func() { _ = file.Close() }()
	account := func(saga.Run[string]) []store.Lock { return []store.Lock{{Space: "account", Key: "a 1"}} }
	d := saga.New("order", &saga.Options[string]{Key: func(s string) string { return s }},
		saga.Lock("lock", account),
		saga.Do("take", func(context.Context, *sql.Tx, saga.Run[string]) (string, error) {
			return "", nil
		}, nil, saga.Pivot()),
		saga.Do("ship", func(context.Context, *sql.Tx, saga.Run[string]) (string, error) {
			return "", skald.Permanent(errors.New("no van"))
		}, nil))
	e, err := saga.NewEngine(sqlitestore.New(file, nil), nil, d)
	must(t, err)
	for _, key := range []string{"o-1", "o-2"} {
		tx, err := file.BeginTx(t.Context(), nil)
		must(t, err)
		_, err = saga.Bind(e, d).Start(t.Context(), tx, key)
		must(t, err)
		must(t, tx.Commit())
		for busy := true; busy; {
			busy, err = e.Step(t.Context())
			must(t, err)
		}
	}
	says := func(args []string, words ...string) {
		t.Helper()
		p := start(t, env, args...)
		p.expect(0)
		text := strings.Join(strings.Fields(p.out.String()), " ")
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("skald %v does not say %q:\n%s", args, w, text)
			}
		}
	}
	says([]string{"saga", "explain", "o-2"}, "lock waits in line for account 'a 1', since",
		"account 'a 1' is held since 20", "by order o-1, which is running, stuck, at ship. That failed once, "+
			"last with: permanent: no van. More: skald saga explain --store 'sqlite:"+path+"' -- order o-1")
	says([]string{"status", "o-2"}, "waits for account 'a 1', which other sagas hold, by lock, since 20")
	says([]string{"saga", "holds"}, "space key saga saga key since before it waiting", "order o-1 20", " 0 1")
	says([]string{"saga", "holds", "account", "a 1"}, "order o-1 20", " 0 1", "order o-2 20", " 1 0")
	says([]string{"saga", "holds", "--json"}, `"space":"account"`, `"saga_key":"o-1"`, `"waiting":1`)
	start(t, env, "saga", "holds", "account", "b").expect(4, "no saga holds account b")
	start(t, env, "saga", "holds", "account").expect(2, "give both")
	says([]string{"doctor"}, "entities of sagas", "account 'a 1' by order o-1 (stuck; 1 wait)",
		"skald saga explain -- order o-1")
}
