package storetest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/skald-go/skald/store"
)

// Lines runs random sagas that join and leave the queues for entities. Some do several of these moves in one
// transaction, which is committed or rolled back. It compares holders, waiting sagas and woken sagas with a
// model.
func Lines[TTx any](t *testing.T, h Harness[TTx]) {
	db := h.Open(t)
	s := &suite[TTx]{T: t, can: h.Can, db: db, d: db.Driver(t)}
	seed := int(time.Now().UnixNano() % 1e9)
	for i := range 40 {
		script := rapid.SliceOfN(rapid.Custom(lineTurns), 1, 12).Example(seed + i)
		g := &lineGame[TTx]{suite: s, lines: lines{}, ended: map[string]bool{}}
		for n := range lineSagas {
			g.sagas = append(g.sagas, s.start(sagaOf(fmt.Sprint("g", i, "-", n)))...)
		}
		for n, turn := range script {
			if why := g.play(turn); why != "" {
				t.Fatalf("%+v\nturn %d: %s", script, n, why)
			}
		}
		for _, m := range g.sagas {
			s.giveUp(m)
		}
	}
}

const lineSagas = 4

// lineTurn is a transaction, or the end of a saga that does not leave its queues.
type lineTurn struct {
	Moves    []lineMove
	RollBack bool
	End      bool // the first move's saga ends
}

// lineMove puts a saga in the queues for entities. A move without entities removes the saga from all queues.
type lineMove struct {
	Saga     int
	Entities []string
}

func lineTurns(t *rapid.T) lineTurn {
	one := rapid.Custom(func(t *rapid.T) lineMove {
		m := lineMove{Saga: rapid.IntRange(0, lineSagas-1).Draw(t, "saga")}
		if rapid.IntRange(0, 2).Draw(t, "leaves") > 0 {
			m.Entities = rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "z"}), 1, 3).Draw(t, "entities")
		}
		return m
	})
	return lineTurn{Moves: rapid.SliceOfN(one, 1, 3).Draw(t, "moves"),
		RollBack: rapid.IntRange(0, 4).Draw(t, "rolls back") == 0,
		End:      rapid.IntRange(0, 9).Draw(t, "ends") == 0}
}

// lines has the queue of each entity: the keys of its sagas.
type lines map[string][]string

// hold adds a saga to queues. It returns true if the saga is at the front of each queue.
func (ls lines) hold(key string, es []string) (front bool) {
	front = true
	for _, e := range es {
		if !slices.Contains(ls[e], key) {
			ls[e] = append(slices.Clone(ls[e]), key)
		}
		front = front && ls[e][0] == key
	}
	return front
}

// remove removes a saga and returns the sagas that become first.
func (ls lines) remove(key string) (next []string) {
	for e, line := range ls {
		at := slices.Index(line, key)
		if at == 0 && len(line) > 1 {
			next = append(next, line[1])
		}
		if at >= 0 {
			ls[e] = slices.Delete(slices.Clone(line), at, at+1)
		}
	}
	return next
}

// list returns all places in order, or only the places of the holders.
func (ls lines) list(holders bool) (out []string) {
	for _, e := range slices.Sorted(maps.Keys(ls)) {
		for before, key := range ls[e] {
			if before == 0 || !holders {
				out = append(out, fmt.Sprint(e, ": ", key, " after ", before))
			}
		}
	}
	return out
}

func listed(hs []store.Hold) (out []string) {
	for _, h := range hs {
		out = append(out, fmt.Sprint(h.Key, ": ", h.Saga.Key, " after ", h.Before))
	}
	return out
}

type lineGame[TTx any] struct {
	*suite[TTx]
	sagas []store.Saga
	ended map[string]bool
	lines lines
}

// play runs a turn of the game. It returns the difference from the model.
func (g *lineGame[TTx]) play(t lineTurn) string {
	g.Helper()
	was := map[string]int64{}
	for _, m := range g.sagas {
		was[m.Key] = g.saga(m.Key).Version
	}
	if m := g.sagas[t.Moves[0].Saga]; t.End {
		if over := nextMove(g.saga(m.Key), "over"); !g.ended[m.Key] {
			over.Final, g.ended[m.Key] = true, true
			_, err := g.d.Apply(g.Context(), store.Effect{Saga: over})
			g.ok(err, "end %s", m.Key)
		}
		return ""
	}
	tx, after, woken := g.db.Begin(g), maps.Clone(g.lines), map[string]bool{}
	for _, move := range t.Moves {
		m := g.sagas[move.Saga]
		if move.Entities == nil {
			g.ok(g.d.FreeEntities(g.Context(), tx, m.ID), "free")
			for _, next := range after.remove(m.Key) {
				woken[next] = !g.ended[next]
			}
		} else {
			first, err := g.d.HoldEntities(g.Context(), tx,
				store.EntityHold{Holder: m.ID, Saga: refOf(m), Entities: accounts(move.Entities...)})
			g.ok(err, "hold")
			if want := after.hold(m.Key, move.Entities); first != want {
				return fmt.Sprintf("%+v: first is %v", move, first)
			}
		}
		hs, err := g.d.EntityHolders(g.Context(), tx, accounts("x", "y", "z")...)
		g.ok(err, "who holds")
		if got, want := listed(hs), after.list(true); !slices.Equal(got, want) {
			return fmt.Sprintf("%+v: in the transaction hold %q, want %q", move, got, want)
		}
	}
	if t.RollBack {
		g.ok(g.db.Rollback(tx), "roll back")
		woken = nil
	} else {
		g.ok(g.db.Commit(tx), "commit")
		g.lines = after
	}
	hs, err := store.ListHolds(g.Context(), g.d, store.HoldQuery{})
	g.ok(err, "list holds")
	if got, want := listed(hs), g.lines.list(false); !slices.Equal(got, want) {
		return fmt.Sprintf("in line are %q, want %q", got, want)
	}
	for key, version := range was {
		if is := g.saga(key); (is.Version > version) != woken[key] || woken[key] && is.Session != "" {
			return fmt.Sprintf("%s is woken: %v: %+v", key, !woken[key], is)
		}
	}
	return ""
}
