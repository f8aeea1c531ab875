package storetest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// Differential runs random operations on a driver and on the driver in memory, and compares the results. A
// failure is reduced and printed. `-rapid.seed` repeats it; `-rapid.checks` and `-rapid.steps` make the test
// longer.
func Differential[TTx any](t *testing.T, h Harness[TTx]) {
	rapid.Check(t, func(r *rapid.T) {
		scope := &scope{TB: t}
		defer scope.end()
		oracle, mine := play(scope, Memory()), play(scope, h)
		g := &game{T: r}
		r.Repeat(g.actions(h.Can.Rivals, func(o op) {
			want, got := oracle(o), mine(o)
			if got != want {
				words, _ := json.Marshal(o)
				r.Fatalf("%s\nanswers  %s\nin memory %s", words, got, want)
			}
		}))
	})
}

// scope cleans up at the end of one check instead of the whole test.
type scope struct {
	testing.TB
	cleanups []func()
}

func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) end() {
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
}

// op is one operation, in terms that are the same on both sides: rows by the IDs of their messages, ticks
// by their order.
type op struct {
	Do      string             `json:",omitzero"`
	Rows    []skald.Message    `json:",omitzero"`
	Marks   []store.Mark       `json:",omitzero"`
	Locks   []store.Lock       `json:",omitzero"`
	Effects []step             `json:",omitzero"`
	Commit  bool               `json:",omitzero"`
	Ask     store.LeaseRequest `json:",omitzero"`
	Look    bool               `json:",omitzero"` // from Base
	Base    int                `json:",omitzero"` // the number of a tick, as Tip is
	Tip     int                `json:",omitzero"`
	After   string             `json:",omitzero"` // the ID of a row
	Limit   int                `json:",omitzero"`
	Shards  []int              `json:",omitzero"`
	Buckets [][2]int           `json:",omitzero"`
	Pick    int                `json:",omitzero"` // the index of an open transaction

	// Takes and the fields below are for the inbox.
	Takes       []takingOp        `json:",omitzero"`
	Steps       []store.Step      `json:",omitzero"`
	Consumer    string            `json:",omitzero"`
	Session     string            `json:",omitzero"`
	Note        string            `json:",omitzero"`
	Stale       bool              `json:",omitzero"` // on another server
	Later       bool              `json:",omitzero"` // leased for an hour
	Along       int               `json:",omitzero"`
	Not         string            `json:",omitzero"` // a type
	Sought      store.ParkedQuery `json:",omitzero"`
	Checkpoints []checkpointOp    `json:",omitzero"`
	Apart       []quarantineOp    `json:",omitzero"`
	Why         store.Outcome     `json:",omitzero"`
	Admitted    bool              `json:",omitzero"`
	Taken       bool              `json:",omitzero"`
}

// step is an effect.
type step struct {
	Mark  *store.Mark     `json:",omitzero"`
	Locks []store.Lock    `json:",omitzero"`
	Rows  []skald.Message `json:",omitzero"`
	Shard *report         `json:",omitzero"`

	Kept   *keepingOp  `json:",omitzero"`
	Step   *store.Step `json:",omitzero"` // of the parked message; alone it is an effect on a step
	Answer *takingOp   `json:",omitzero"`
}

// report is progress of a shard.
type report struct {
	Shard  int           `json:",omitzero"`
	Stale  bool          `json:",omitzero"`
	Cursor *store.Cursor `json:",omitzero"` // Base and Tip are replaced by the ticks with the numbers below
	Base   int           `json:",omitzero"`
	Tip    int           `json:",omitzero"`
	Inc    *string       `json:",omitzero"`
	Aside  []setting     `json:",omitzero"`
	Freed  []string      `json:",omitzero"`
}

type setting struct {
	ID       string `json:",omitzero"`
	Attempts int    `json:",omitzero"`
	Why      string `json:",omitzero"`
	Later    bool   `json:",omitzero"`
}

// game generates operations. It uses only data that both sides share.
type game struct {
	*rapid.T
	written int
	earlier []string // IDs of rows, committed or not
	ticks   int      // number of calls of Tick
	open    int      // open transactions
	notes   int      // stamps of checkpoints
}

func (g *game) actions(rivals bool, do func(op)) map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){
		"say":   func(*rapid.T) { do(op{Do: "say", Rows: g.rows(1, 3), Commit: g.most("commit")}) },
		"unit":  func(*rapid.T) { do(g.unit()) },
		"apply": func(*rapid.T) { do(op{Do: "apply", Effects: g.steps(1, 4)}) },
		"seen":  func(*rapid.T) { do(op{Do: "seen", Marks: g.marks(0, 6)}) },
		"lease": func(*rapid.T) {
			o := op{Do: "lease", Ask: g.ask(), Base: g.tick("base"), Look: g.most("look")}
			do(o)
			if o.Look {
				g.ticks++
			}
		},
		"tick": func(*rapid.T) {
			do(op{Do: "tick", Base: g.tick("base")})
			g.ticks++
		},
		"pull": func(*rapid.T) {
			do(op{Do: "pull", Base: g.tick("base"), Tip: g.tick("tip"), After: g.row("after"),
				Limit: g.n("limit", 1, 8), Buckets: g.buckets()})
		},
		"held":  func(*rapid.T) { do(op{Do: "held", Shards: g.shards()}) },
		"retry": func(*rapid.T) { do(op{Do: "retry", Shards: g.shards(), Limit: g.n("limit", 1, 12)}) },
		"count": func(*rapid.T) { do(op{Do: "count"}) },
	}
	maps.Copy(all, g.inbox(do))
	if !rivals {
		return all
	}
	all["open"] = func(*rapid.T) {
		if g.open == 3 {
			return
		}
		do(op{Do: "open", Rows: g.rows(1, 2)})
		g.open++
	}
	all["end"] = func(*rapid.T) {
		if g.open == 0 {
			return
		}
		do(op{Do: "end", Pick: g.n("which", 0, g.open-1), Rows: g.rows(0, 2), Commit: g.most("commit")})
		g.open--
	}
	return all
}

func (g *game) n(label string, least, most int) int {
	return rapid.IntRange(least, most).Draw(g.T, label)
}
func (g *game) most(label string) bool   { return g.n(label, 0, 3) > 0 }
func (g *game) rarely(label string) bool { return g.n(label, 0, 3) == 0 }

func (g *game) rows(least, most int) (out []skald.Message) {
	for range g.n("rows", least, most) {
		g.written++
		var tail [10]byte
		binary.BigEndian.PutUint64(tail[2:], uint64(g.written))
		m := message(rapid.SampledFrom([]string{"", "a", "b", "c", "d\x00\xff"}).Draw(g.T, "key"), g.written)
		m.ID = uuid7.From(time.UnixMilli(1_700_000_000_000), tail)
		if g.rarely("empty key") {
			m.Key = []byte{}
		}
		out, g.earlier = append(out, m), append(g.earlier, m.ID)
	}
	return out
}

func (g *game) marks(least, most int) (out []store.Mark) {
	for range g.n("marks", least, most) {
		m := store.Mark{Consumer: rapid.SampledFrom([]string{"stock", "mail"}).Draw(g.T, "consumer"),
			Outcome: store.Done}
		m.Source = rapid.SampledFrom([]string{"/orders", ""}).Draw(g.T, "source")
		m.ID = rapid.SampledFrom([]string{"7", "018bcfe5-6800-7000-8000-000000000001",
			"018bcfe5-6800-4000-8000-000000000001"}).Draw(g.T, "id")
		if g.rarely("reject") {
			m.Outcome, m.Reason = store.Rejected, "no"
		}
		m.Keep = rapid.SampledFrom([]time.Duration{0, 0, 0, atOnce, day}).Draw(g.T, "keep")
		out = append(out, m)
	}
	return out
}

// atOnce is a retention so short that it is over at the next read.
const atOnce = time.Nanosecond

func (g *game) locks(guarded bool) (out []store.Lock) {
	for range g.n("locks", 0, 2) {
		l := store.Lock{Space: "order", Key: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(g.T, "lock")}
		if guarded {
			l.Version = int64(g.n("version", 0, 6))
		}
		out = append(out, l)
	}
	return out
}

func (g *game) unit() op {
	o := op{Do: "unit", Marks: g.marks(0, 4), Locks: g.locks(false), Rows: g.rows(0, 2),
		Commit: g.most("commit")}
	if g.most("leaves something") {
		o.Effects = g.steps(0, 2)
	}
	return o
}

func (g *game) steps(least, most int) (out []step) {
	for range g.n("effects", least, most) {
		e := step{Rows: g.rows(0, 2), Locks: g.locks(g.rarely("guarded"))}
		if g.rarely("marks") {
			e.Mark = &g.marks(1, 1)[0]
		}
		if g.rarely("reports") {
			e.Shard = g.report()
		}
		out = append(out, e)
	}
	return out
}

func (g *game) report() *report {
	p := &report{Shard: g.n("shard", 0, shards-1), Stale: g.rarely("stale")}
	if g.rarely("cursor") {
		p.Cursor = &store.Cursor{Seq: int64(g.n("seq", 0, 100))}
		p.Base, p.Tip = g.tick("base"), g.tick("tip")
	}
	if g.rarely("incarnation") {
		p.Inc = new(fmt.Sprint("b", g.n("incarnation", 0, 3)))
	}
	for range g.n("aside", 0, 4) {
		p.Aside = append(p.Aside, setting{ID: g.row("aside"), Attempts: g.n("attempts", 0, 2), Why: "no",
			Later: g.rarely("later")})
	}
	for range g.n("freed", 0, 1) {
		p.Freed = append(p.Freed, g.row("freed"))
	}
	return p
}

func (g *game) ask() store.LeaseRequest {
	a := store.LeaseRequest{TTL: time.Hour, Leave: g.n("leave", 0, 7) == 0}
	a.Owner = rapid.SampledFrom([]string{"one", "one", "two", "three"}).Draw(g.T, "owner")
	a.Session = fmt.Sprint(g.n("life", 1, 2))
	for range g.n("free", 0, 6) {
		a.Release = append(a.Release, g.n("shard", 0, shards-1))
	}
	return a
}

func (g *game) tick(label string) int { return g.n(label, 0, g.ticks) }

// row returns the ID of some row, or "".
func (g *game) row(label string) string {
	if i := g.n(label, 0, len(g.earlier)); i > 0 {
		return g.earlier[i-1]
	}
	return ""
}

func (g *game) shards() (out []int) {
	for id := range shards {
		if g.most("of the shard") {
			out = append(out, id)
		}
	}
	return out
}

func (g *game) buckets() (out [][2]int) {
	for range g.n("ranges", 0, 2) {
		first := g.n("first", 0, store.Buckets-1)
		out = append(out, [2]int{first, g.n("last", first, store.Buckets-1)})
	}
	return out
}
