package main_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/skald-go/skald/saga"
)

// idle starts sagas which no engine runs any more: a definition and a key each.
func (b *bed) idle(sagas ...[2]string) {
	t := b.t
	t.Helper()
	var parts []saga.Defined
	defs := map[string]*saga.Definition[string]{}
	for _, s := range sagas {
		if defs[s[0]] != nil {
			continue
		}
		wait := saga.Wait[string]("approve", saga.Signal[bool]{Name: "approved"})
		ship := saga.Do("ship", func(context.Context, *sql.Tx, saga.Run[string]) (string, error) {
			return "by van", nil
		}, nil, saga.Pivot())
		byKey := &saga.Options[string]{Key: func(k string) string { return k }}
		defs[s[0]] = saga.New(s[0], byKey, wait, ship)
		parts = append(parts, defs[s[0]])
	}
	e, err := saga.NewEngine(b.s, nil, parts...)
	must(t, err)
	for _, s := range sagas {
		tx, err := b.db.BeginTx(t.Context(), nil)
		must(t, err)
		_, err = saga.Bind(e, defs[s[0]]).Start(t.Context(), tx, s[1])
		must(t, err)
		must(t, tx.Commit())
	}
	_, err = e.Step(t.Context()) // it notes the definitions
	must(t, err)
}

// turned is how many sagas turned back.
func (b *bed) turned() int { return b.count("skald_saga WHERE status <> 'running'") }

// An argument, or a flag that chooses, of a variable that was not set is refused: it never means all.
func TestEmptyIsNotAll(t *testing.T) {
	t.Parallel()
	b := onSQLite(t).migrate()
	b.idle([2]string{"order", "o-1"}, [2]string{"order", "o-2"})
	env := b.env
	why := []string{"--yes", "--reason", "x"}
	for _, args := range []string{"saga cancel order |", "saga cancel |", "saga cancel | o-1",
		"saga cancel | --all", "saga retry |", "saga show order |", "saga explain |", "saga graph |",
		"status |", "compensate | --state running", "parked list |", "dead list |", "dead redrive | --all",
		"dead drop | --all", "dead redrives |", "inbox show |", "inbox admit | --all", "consumer rename a |",
		"outbox drop |", "dead import |"} {
		p := start(t, env, strings.Split(strings.ReplaceAll(args, "|", ""), " ")...)
		p.expect(2, "an argument is empty")
	}
	start(t, env, append([]string{"saga", "cancel", "order", ""}, why...)...).expect(2,
		"to select all, omit the argument, and give --all or a filter: skald saga cancel [[NAME] KEY]")
	for _, args := range []string{"saga cancel --name", "saga cancel --all --id", "saga list --status",
		"saga list --at", "saga list --error", "saga list --since", "saga list --until",
		"saga retry o-1 --step", "steps list --consumer", "steps list --saga", "steps list --state",
		"compensate --state running --flow", "compensate --state", "dead list --consumer",
		"dead list --source", "dead list --topic", "dead list --type", "dead list --fingerprint",
		"dead list --kind", "dead list --since", "parked release --all --topic", "dead redrives --consumer",
		"inbox admit --all --why", "consumer resume --consumer a --fingerprint",
		"consumer acknowledge-missed --consumer"} {
		words := strings.Split(args, " ")
		start(t, env, append(append(words, ""), why...)...).expect(2, words[len(words)-1], "it is empty")
	}
	if n := b.turned(); n != 0 {
		t.Errorf("%d turned back", n)
	}
}

// A key that a parent and its child share names neither: verbs refuse it, as show does.
func TestKeyNamesOneSaga(t *testing.T) {
	t.Parallel()
	b := onSQLite(t).migrate()
	b.idle([2]string{"child", "o-1"}, [2]string{"parent", "o-1"})
	env := b.env
	which := "name one of them, child or parent"
	start(t, env, "saga", "show", "o-1").expect(2, which)
	start(t, env, "saga", "cancel", "o-1", "--reason", "x", "--yes").expect(2, which)
	start(t, env, "saga", "cancel", "o-1", "--dry-run").expect(2, which)
	if n := b.turned(); n != 0 {
		t.Errorf("%d turned back", n)
	}
	start(t, env, "saga", "cancel", "child", "o-1", "--reason", "x").expect(0)
	if n := b.turned(); n != 1 {
		t.Errorf("%d turned back", n)
	}
}

// A limit below 0 is refused: it would mean all.
func TestLimitBelowZero(t *testing.T) {
	t.Parallel()
	env := onSQLite(t).migrate().env
	for _, list := range []string{"saga list", "steps list", "dead list", "dead groups", "dead export",
		"dead redrives", "parked list"} {
		start(t, env, append(strings.Fields(list), "--limit", "-1")...).expect(2, "--limit cannot be negative")
	}
}

// What a participant or an operator wrote does not reach a terminal as a command of the terminal, whichever
// way it is looked at, nor as a line of its own.
func TestControlCharactersOfOthers(t *testing.T) {
	t.Parallel()
	b := onSQLite(t).migrate()
	key := "o\x1b[2J1"
	b.idle([2]string{"order", key}, [2]string{"order", "o-2"})
	b.exec("UPDATE skald_saga SET failed = 1, error = 'no van' || char(27) || '[2J' || char(10) || 'row'")
	start(t, b.env, "saga", "cancel", "order", key, "--reason", "away\x1b]0;t\a\rgone\u009b2J\nrow").expect(0)
	for _, args := range [][]string{{"saga", "list"}, {"saga", "show", key}, {"saga", "explain", key},
		{"status", key}, {"status", key, "--explain"}, {"saga", "show", "none\x1b[2J"},
		{"steps", "show", "--saga", "none\x1b[2J"}} {
		p := start(t, b.env, args...)
		p.wait()
		said := p.out.String() + p.errs.String()
		if strings.ContainsAny(said, "\x1b\a\r\u009b") || !strings.Contains(said, `\x1b`) ||
			strings.Contains(said, "\nrow") {
			t.Errorf("%q says %q", args, said)
		}
	}
	p := start(t, b.env, "saga", "explain", key, "--json")
	p.expect(0)
	if !strings.Contains(p.out.String(), `\u009b`) {
		t.Errorf("a program gets %q", &p.out)
	}
}
