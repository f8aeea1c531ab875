package storetest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"pgregory.net/rapid"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// program is a sequence of statements of a handler in its transaction.
type program[TTx any] struct {
	*suite[TTx]
	name  string
	unit  store.Unit[TTx] // nil: the transaction is the user's
	tx    TTx
	raw   bool             // statements use the connection directly
	marks []savepoint[TTx] // open savepoints, the newest last
	told  int
	keys  map[string]bool
}

type savepoint[TTx any] struct {
	name   string // "" if Begin set it
	before TTx
}

// The operations of programs.
const (
	opWrite = iota
	opInsert
	opPut
	opSavepoint
	opNest
	opUndo
	opKeep
	opGoroutines
	opFail
	opRefused
	opRaw  // switches between statements on the connection and on the transaction
	opPass // the handler returns, and the next handler of a batch continues
	ops
)

// writePrograms runs random programs in a lent transaction and in a transaction of the user, and compares the
// rows and the user's keys. Every second lent transaction belongs to a batch.
func (s *suite[TTx]) writePrograms() {
	programs := 30
	if explore := os.Getenv("SKALD_EXPLORE"); explore == "all" || explore == "full" {
		programs = 500
	}
	draw := rapid.SliceOfN(rapid.IntRange(0, ops-1), 1, 20)
	for seed := range programs {
		does := draw.Example(seed)
		in := store.Intake{}
		if seed%2 == 1 {
			in = intake(mark(), mark(), mark())
		}
		lent := s.program(fmt.Sprint("lent", seed), s.begin(s.d, in), does)
		own := s.program(fmt.Sprint("own", seed), nil, does)
		if !maps.EqualFunc(lent, own, slices.Equal) {
			s.Fatalf("program %d, %v: in a lent transaction %v, in the user's own %v", seed, does, lent, own)
		}
	}
}

// program runs a program in u, or in a transaction of the user if u is nil. It returns the payloads by key,
// in order, and the user's values.
func (s *suite[TTx]) program(name string, u store.Unit[TTx], does []int) map[string][]string {
	s.Helper()
	p := &program[TTx]{suite: s, name: name, unit: u, keys: map[string]bool{}}
	if u != nil {
		p.tx = u.Tx()
	} else {
		p.tx = s.db.Begin(s)
	}
	whole := p.tx
	for _, op := range does {
		p.do(op)
	}
	if u != nil {
		s.commit(u)
	} else {
		s.ok(s.db.Commit(whole), "commit the user's transaction")
	}
	out := map[string][]string{}
	for _, r := range s.allRows() {
		if run, key, ok := strings.Cut(string(r.Key), "/"); ok && run == name {
			out[key] = append(out[key], string(r.Data))
		}
	}
	for key := range p.keys {
		if value, ok := s.db.Get(s, key); ok {
			out["put"] = append(out["put"], value)
		}
	}
	slices.Sort(out["put"])
	return out
}

func (p *program[TTx]) do(op int) {
	p.Helper()
	p.told++
	sql := func(text string, args ...any) {
		p.Helper()
		p.ok(p.statement(fmt.Sprintf(text, args...)), "%s", text)
	}
	open, speaks := len(p.marks), p.can.Statement != nil
	switch {
	case op == opWrite:
		p.write(p.tx, p.message("a", p.told))
	case op == opPut:
		key := fmt.Sprint(p.name, "-", p.told)
		p.keys[key] = true
		p.put(p.tx, key, fmt.Sprint(p.told))
	case op == opGoroutines:
		p.goroutines()
	case op == opPass:
		if p.unit != nil && open == 0 { // a savepoint ends with its handler
			p.unit.Return()
			p.tx = p.unit.Tx()
		}
	case op == opRaw:
		p.raw = !p.raw && p.can.Raw != nil
	case !speaks:
	case op == opInsert:
		sql(`INSERT INTO {skald_outbox} (topic, key, type, data)
			VALUES ('orders', '%s/a', 'order.placed', '%d')`, p.name, p.told)
	case op == opSavepoint:
		p.marks = append(p.marks, savepoint[TTx]{fmt.Sprint("mine", p.told), p.tx})
		sql("SAVEPOINT mine%d", p.told)
	case op == opNest && p.can.Nest != nil:
		inner, err := p.can.Nest(p.tx)
		p.ok(err, "nest")
		p.marks, p.tx = append(p.marks, savepoint[TTx]{"", p.tx}), inner
	case open == 0:
	case op == opUndo:
		p.end("ROLLBACK TO SAVEPOINT ", p.db.Rollback)
	case op == opKeep:
		p.end("RELEASE SAVEPOINT ", p.db.Commit)
	case op == opFail:
		if p.statement("INSERT INTO no_such_table VALUES (1)") == nil {
			p.Fatal("a statement about no table succeeds")
		}
		p.end("ROLLBACK TO SAVEPOINT ", p.db.Rollback)
	case op == opRefused:
		bad := p.message("a", p.told)
		bad.Topic = "no such topic"
		_ = p.d.Write(p.Context(), p.tx, rows(bad)) // or the next statement returns the error
		p.end("ROLLBACK TO SAVEPOINT ", p.db.Rollback)
	}
}

func (p *program[TTx]) statement(sql string) error {
	if p.raw {
		return p.can.Raw(p.tx, sql)
	}
	return p.can.Statement(p.db, p.tx, sql)
}

func (p *program[TTx]) message(key string, n int) skald.Message { return message(p.name+"/"+key, n) }

// end ends the newest savepoint in the same way as it was set.
func (p *program[TTx]) end(sql string, call func(TTx) error) {
	p.Helper()
	last := p.marks[len(p.marks)-1]
	p.marks = p.marks[:len(p.marks)-1]
	if last.name == "" {
		p.ok(call(p.tx), "end a nested transaction")
	} else {
		p.ok(p.statement(sql+last.name), "%s%s", sql, last.name)
	}
	p.tx = last.before
}

// goroutines writes concurrently in a lent transaction, with a key for each goroutine. A transaction of the
// user allows only one goroutine at a time.
func (p *program[TTx]) goroutines() {
	var wg sync.WaitGroup
	for g := range 3 {
		work := func() {
			for i := range 2 {
				m := p.message(fmt.Sprint("g", g), 100*p.told+i)
				if err := p.d.Write(p.Context(), p.tx, rows(m)); err != nil {
					p.Errorf("goroutine %d: %v", g, err)
				}
			}
		}
		if p.unit == nil {
			work()
			continue
		}
		wg.Go(work)
	}
	wg.Wait()
}
