package decide

import (
	"flag"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/skald-go/skald/store"
)

// The printed table matches the rules. Update it with: go test ./inbox/internal/decide -update
func TestTableMatchesPrintedTable(t *testing.T) {
	const page = "testdata/table.txt"
	got := printed()
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(page)
	if err != nil || string(want) != got {
		t.Errorf("%s differs from the rules (%v): read the difference, then run with -update. The rules are:\n%s",
			page, err, got)
	}
}

var update = flag.Bool("update", false, "write testdata/table.txt")

type block struct {
	title string
	rules []rule
	all   []Facts // the first fact of each group that is known then
}

func blocks() []block {
	return []block{
		{"An intake has answered", takenIn(), []Facts{MarkFresh, Delivered, Unsuspected, Handler, NoStep,
			StepAbsent, OthersCall, Unasked, LegacyUnasked}},
		{"A claimed message was marked elsewhere: its step decides", elsewhere(),
			[]Facts{MarkFresh, NoStep, StepAbsent, OthersCall, Unasked}},
		{"The handler has answered", answered(), []Facts{ReturnedNil, NoStep, StepAbsent, Unasked}},
	}
}

// titles returns the titles of groups, by their first facts.
func titles() map[Facts]string {
	return map[Facts]string{MarkFresh: "mark", Delivered: "from", Unsuspected: "crash", Handler: "handler",
		NoStep: "step", StepAbsent: "stood",
		OthersCall: "call", Unasked: "reply", LegacyUnasked: "legacy", ReturnedNil: "answer"}
}

// words returns the names of the facts, in order.
func words() []string {
	return strings.Fields(`fresh done rejected barred conflict too-old kept behind stale  broker parked admitted  - suspect  yes none
		none takes undoes  absent done calling parked dead rejected barred undone too-old  other own lost  none accepted refused
		unasked took not  nil again call reject later error`)
}

func (a Action) String() string {
	return strings.Fields(`stay drop leave handle undo ask-legacy finish-bare intend-again wait queue look-up quarantine repeat
		take-in-step let-go commit take-again intend reject fail`)[a]
}

func group(first Facts) Facts {
	all := groups()
	return all[slices.Index(all, first)+1] - first
}

func (c Change) String() string {
	if !c.Some() {
		return ""
	}
	from := "state before"
	if len(c.From) > 0 {
		from = strings.Trim(strings.ReplaceAll(fmt.Sprint(c.From), " ", "|"), "[]")
	}
	out := from + " → " + c.To.String()
	if c.ByMark {
		out += ", answer of the mark"
	}
	if c.IfAnswered {
		out += ", if answered"
	}
	return out
}

func printed() string {
	var out strings.Builder
	out.WriteString("The decisions of the inbox. In each table the first row that applies decides; · means any value.\n")
	for _, b := range blocks() {
		rows := [][]string{{"#"}}
		for _, g := range b.all {
			rows[0] = append(rows[0], titles()[g])
		}
		rows[0] = append(rows[0], "do", "ending", "mark", "step becomes", "also")
		for n, r := range b.rules {
			row := []string{fmt.Sprint(n + 1)}
			for _, g := range b.all {
				row = append(row, named(r.when&group(g)))
			}
			d, mark, also := r.then, "", []string(nil)
			if d.Mark != store.Fresh {
				mark = d.Mark.String()
			}
			if d.Commits {
				also = append(also, "the intake is committed")
			}
			if d.Requeue {
				also = append(also, "the dead letter of the step is requeued")
			}
			if d.Settle {
				also = append(also, "the call is settled, to be undone")
			}
			ending := d.Ending.String()
			if d.Do == Handle || d.Do == Undo || d.Do == AskLegacy {
				ending = ""
			}
			rows = append(rows, append(row, d.Do.String(), ending, mark, d.Step.String(),
				strings.Join(also, ", ")))
		}
		fmt.Fprintf(&out, "\n%s\n\n", b.title)
		columns(&out, rows)
	}
	return out.String()
}

func named(f Facts) string {
	var out []string
	for ; f != 0; f &= f - 1 {
		out = append(out, words()[bits.TrailingZeros64(uint64(f))])
	}
	if out == nil {
		return "·"
	}
	return strings.Join(out, "|")
}

func columns(out *strings.Builder, rows [][]string) {
	wide := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			wide[i] = max(wide[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += cell + strings.Repeat(" ", wide[i]-len([]rune(cell))+2)
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// possible yields each possible set of facts for a block, with one fact of each group.
func (b block) possible(yield func(Facts) bool) {
	var choose func(n int, f Facts) bool
	choose = func(n int, f Facts) bool {
		if n == len(b.all) {
			return !b.can(f) || yield(f)
		}
		for left := group(b.all[n]); left != 0; left &= left - 1 {
			if !choose(n+1, f|left&-left) {
				return false
			}
		}
		return true
	}
	choose(0, 0)
}

func (b block) can(f Facts) bool {
	stood := f & group(StepAbsent)
	switch {
	case f&NoStep != 0 && (stood != StepAbsent || f&(OwnCall|LostCall) != 0):
		return false
	case f&(OwnCall|LostCall) != 0 && stood != StepCalling, f&LostCall != 0 && f&(Accepted|Refused) != 0,
		f&LostCall != 0 && f&DoesStep == 0:
		return false
	case f&NoHandler != 0 && f&NoStep == 0:
		return false
	case b.title[0] == 'A' && f&group(MarkFresh) != 0 && b.all[1] == NoStep: // elsewhere
		return f&NoStep == 0 && f&(MarkDone|MarkRejected|MarkBarred|MarkConflict) != 0
	}
	return true
}

// A rule applies to each possible set of facts, and no rule is unused.
func TestEverythingIsDecided(t *testing.T) {
	for _, b := range blocks() {
		for i := range b.rules {
			b.rules[i].when = withOmitted(b.rules[i].when)
		}
		used, n := make([]bool, len(b.rules)), 0
		for f := range b.possible {
			n++
			at := slices.IndexFunc(b.rules, func(r rule) bool { return f&^r.when == 0 })
			if at < 0 {
				t.Fatalf("%s: nothing is decided for %s", b.title, named(f))
			}
			used[at] = true
		}
		if i := slices.Index(used, false); i >= 0 {
			t.Errorf("%s: row %d is unused", b.title, i+1)
		}
		t.Logf("%s: %d findings, %d rows", b.title, n, len(b.rules))
	}
}

// Some decisions are wrong for any facts. The table never returns them.
func TestPromises(t *testing.T) {
	table := New()
	for f := range blocks()[0].possible {
		d := table.AfterIntake(f)
		runs := d.Do == Handle || d.Do == Undo || d.Do == StoreCallAgain
		switch stood := f & group(StepAbsent); {
		case runs && f&MarkFresh == 0:
			t.Errorf("a message that has a mark is run: %s", named(f))
		case runs && f&Suspect != 0:
			t.Errorf("a suspect is run: %s", named(f))
		case d.Do == Handle && f&DoesStep != 0 && stood&(StepDone|StepBarred|StepUndone|StepRejected) != 0:
			t.Errorf("a step is done twice, or although it is barred: %s", named(f))
		case d.Do == Handle && f&UndoesStep != 0, d.Do == Undo && f&DoesStep != 0:
			t.Errorf("an undo runs as a step, or a step as an undo: %s", named(f))
		case d.Do == Undo && stood&(StepRejected|StepBarred|StepUndone) != 0:
			t.Errorf("a step without an effect is undone: %s", named(f))
		case d.Do == Undo && f&LegacyDone == 0 && stood&(StepAbsent|StepParked|StepDead) != 0:
			t.Errorf("a step that was never done is undone: %s", named(f))
		case runs && stood == StepTooOld && f&Admitted == 0:
			t.Errorf("a step that may have expired is done or undone: %s", named(f))
		case runs && stood == StepCalling && f&OthersCall != 0:
			t.Errorf("a message runs while another call of its step is in progress: %s", named(f))
		case (d.Do == CommitWithoutHandler || d.Do == Repeat || d.Do == DeleteParked) &&
			stood == StepCalling &&
			f&MarkFresh != 0:
			t.Errorf("a message is finished while the outcome of a call of its step is unknown: %s", named(f))
		case d.Do == Queue && f&Delivered == 0:
			t.Errorf("a parked message is parked again: %s", named(f))
		case d.Requeue && (f&UndoesStep == 0 || stood != StepDead):
			t.Errorf("a dead letter is requeued although its step is not undone: %s", named(f))
		}
	}
	for f := range blocks()[1].possible {
		d := table.AfterOtherMark(f)
		switch moved := f&StepCalling != 0 && f&(OwnCall|LostCall) != 0; {
		case moved && !d.Step.Some():
			t.Errorf("the effect of its own call is lost: %s", named(f))
		case d.Step.Some() && !d.Commits:
			t.Errorf("a step is changed in a transaction that is rolled back: %s", named(f))
		case moved && !slices.Equal(d.Step.From, []store.StepState{store.StepCalling}):
			t.Errorf("the step of its call is not calling: %s", named(f))
		case d.Ending == Conflict != (f&MarkConflict != 0):
			t.Errorf("the mark of another message counts as its own: %s", named(f))
		case f&UndoesStep != 0 && f&OthersCall != 0 && f&StepCalling != 0 && f&MarkDone != 0 && !d.Settle:
			t.Errorf("a call that is to be undone is not settled: %s", named(f))
		}
	}
	for f := range blocks()[2].possible {
		d := table.AfterHandler(f)
		switch {
		case d.Step.Some() && f&NoStep != 0:
			t.Errorf("a message without a step changes one: %s", named(f))
		case f&DoesStep != 0 && f&Refused != 0 && f&ReturnedNil != 0 && d.Step.To != store.StepRejected:
			t.Errorf("a refused call took effect: %s", named(f))
		case f&ReturnedReject != 0 && f&DoesStep != 0 && d.Step.To != store.StepRejected:
			t.Errorf("a rejected message took effect: %s", named(f))
		case f&DoesStep != 0 && slices.Contains(d.Step.From, store.StepBarred):
			t.Errorf("a barred step is done: %s", named(f))
		}
	}
}
