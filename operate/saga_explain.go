package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

// Explain describes the state of the saga, the reason for the state, and the possible commands, in one
// sentence or more per line. The argument dbFlag is the flag that selects the database: see
// BlockingMessages.
func (r *SagaRead) Explain(dbFlag string) (lines []string) {
	s, st, p := r.row, r.state, r.plan
	which := sagaCommand{&s, dbFlag}
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch st.Status {
	case plan.Done:
		say("It is done: each step is done or skipped.")
	case plan.Compensated:
		say("It turned back, and its completed steps are undone.")
	case plan.Compensating:
		say("It turns back: the steps that took effect are undone, the last one first.")
	default:
		say("It has gone forward since %s.", formatTime(s.Started))
	}
	if st.Cause != nil {
		say("It turned back because %s.", causeText(st.Cause))
	}
	if st.Paused && !st.Status.Final() {
		say("It is paused: no step begins. To go on: %s", which.typed("resume", ""))
	}
	switch refusal := r.CancelRefusal(); {
	case st.Overdue:
		say("Its deadline, or a cancellation, came after its pivot: it goes on.")
	case st.Status == plan.Running && refusal == "" && !st.Deadline.IsZero() && st.Paused:
		say("Its deadline is %s: it has no effect while the saga is paused.", formatTime(st.Deadline))
	case st.Status == plan.Running && refusal == "" && !st.Deadline.IsZero():
		say("At %s, its deadline, it turns back, unless its pivot is done.", formatTime(st.Deadline))
	case st.Status == plan.Running && refusal != "":
		say("It cannot turn back any more: %s.", refusal)
	}
	for i := range st.Runs {
		text := explainRun(r, &st.Runs[i], which)
		if c, is := r.children[i]; is {
			text += c.explain(dbFlag)
		}
		if text != "" {
			say("%s", text)
		}
	}
	if names := endedNames(st); names != "" {
		say("These steps ran in a transaction that their function ended, so their writes may be committed: %s. Each is stuck once "+
			"the step before it is done. Complete each committed step, and retry the others.", names)
	}
	for _, line := range r.entities(dbFlag) {
		say("%s", line)
	}
	if left := leftBy(&s, dbFlag); left != "" {
		say("%s", strings.ToUpper(left[:1])+left[1:])
	}
	if r.noEngine != "" {
		say("%s", r.noEngine)
	}
	if p == nil && !st.Status.Final() {
		say("No engine has stored its definition (%s), so no engine runs it: check that a build with this definition runs.",
			s.Hash)
	}
	return lines
}

// endedNames names the runs in which the function ended its transaction. Their writes may be committed.
func endedNames(st plan.State) string {
	var names []string
	for _, m := range st.Ended {
		name := sagarow.StepName(m.Step, m.Occurrence)
		if m.Undo {
			name = "the undo of " + name
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// CancelRefusal explains why a cancellation would have no effect. It returns "" if a cancellation would turn
// the saga back.
func (r *SagaRead) CancelRefusal() string {
	switch st := &r.state; {
	case st.Status.Final():
		return "it has ended"
	case st.Status == plan.Compensating:
		return "it turns back already"
	case r.plan != nil && r.plan.Final(*st):
		return "its pivot is passed"
	}
	return ""
}

func explainRun(s *SagaRead, r *plan.Run, which sagaCommand) string {
	p, st := s.plan, &s.state
	name, node := sagarow.StepName(r.Step, r.Occurrence), plan.Step{}
	if p != nil {
		node, _ = p.Step(r.Step)
	}
	failed := ""
	switch why := strings.TrimSpace(r.Error); {
	case r.Error == "":
	case r.Attempts == 0: // an operator's retry reset the attempts, or the last attempt had no error
		failed = fmt.Sprintf(" Its last failure: %s.", why)
	default:
		failed = fmt.Sprintf(" It failed %s, last with: %s.", timesText(r.Attempts), why)
	}
	typed := func(verb, data string) string {
		return which.typed(verb, " --step "+shortlog.Shell(r.Step)+occurrenceFlag(r)+data)
	}
	switch {
	case r.Unsure && st.Status == plan.Compensating && !r.Sent:
		return fmt.Sprintf("%s may have taken effect: it is stuck, and nothing is undone before an operator "+
			"decides.%s If it took effect, complete it, and the saga undoes it: %s. Else skip it: %s", name, failed,
			typed("complete", sample(node.Shape)), typed("skip", ""))
	case r.Stuck:
		what := map[plan.Phase]string{plan.Deciding: "the condition of ", plan.Undo: "the undo of ",
			plan.Undoing: "the undo of "}[r.Phase]
		text := fmt.Sprintf("%s%s is stuck, and waits for an operator.%s To go on, retry, complete or "+
			"skip it: %s", what, name, failed, typed("retry", ""))
		if node.Kind == plan.Lock && r.Phase != plan.Undo {
			text += " After skip or complete, the saga goes on without its entities, and other sagas may change them meanwhile."
		}
		return text
	case node.Kind == plan.Lock && (r.Phase == plan.Ready || r.Phase == plan.Waiting || r.Phase == plan.Undo):
		return explainLock(st, r, s.places, typed, failed)
	case r.Phase == plan.Deciding:
		return fmt.Sprintf("%s is next: its condition is evaluated.%s", name, failed)
	case r.Phase == plan.Ready && st.Status == plan.Compensating:
		return fmt.Sprintf("%s may have taken effect: the engine finds out before it undoes anything.%s%s", name,
			failed, retryText(st, r))
	case r.Phase == plan.Ready:
		return fmt.Sprintf("%s runs next.%s%s", name, failed, retryText(st, r))
	case r.Phase == plan.Undo:
		return fmt.Sprintf("%s is undone next.%s%s", name, failed, retryText(st, r))
	case r.Phase == plan.Undoing && node.Kind == plan.Child:
		return fmt.Sprintf("%s waits until its child is undone.%s", name, untilText(st, r))
	case r.Phase == plan.Undoing:
		return fmt.Sprintf("%s waits for the reply to its undo%s.%s%s", name, sinceText(r),
			untilText(st, r), which.statusHint())
	case r.Phase == plan.Waiting:
		for_ := map[plan.Kind]string{plan.Command: "a reply", plan.Child: "its child"}[node.Kind]
		if node.Kind == plan.Wait {
			if for_ = "the signal " + node.Signal; node.Signal == "" {
				for_ = "its time"
			}
		}
		text := fmt.Sprintf("%s waits for %s%s.%s", name, for_, sinceText(r), untilText(st, r))
		if node.Kind == plan.Command {
			text += which.statusHint()
		}
		if node.Signal != "" {
			text += " To send it: " + which.typed("signal", " --signal "+shortlog.Shell(node.Signal)+
				occurrenceFlag(r)+sample(node.Shape))
		}
		return text
	}
	return ""
}

// sagaCommand builds the command lines of verbs on a saga.
type sagaCommand struct {
	saga *store.Saga
	at   string // the flag that selects its database
}

func (v sagaCommand) typed(verb, flags string) string {
	return "skald saga " + verb + spaced(v.at) + flags + " --reason '…'" + sagaArgs(v.saga.Name, v.saga.Key)
}

// statusHint returns a sentence with the command that shows why the reply to a command is late.
func (v sagaCommand) statusHint() string {
	return " To see why the reply is late, run at the service that replies: skald status --store '…' -- " +
		shortlog.Shell(v.saga.Key)
}

func occurrenceFlag(r *plan.Run) string {
	if r.Occurrence == "" {
		return ""
	}
	return " --occurrence " + shortlog.Shell(r.Occurrence)
}

func retryText(st *plan.State, r *plan.Run) string {
	switch {
	case r.Due.IsZero():
		return ""
	case st.Paused:
		return fmt.Sprintf(" Its next attempt is at %s, if the saga is resumed by then.", formatTime(r.Due))
	}
	return fmt.Sprintf(" Its next attempt is at %s.", formatTime(r.Due))
}

func sinceText(r *plan.Run) string {
	if r.At.IsZero() {
		return ""
	}
	return " since " + formatTime(r.At)
}

func untilText(st *plan.State, r *plan.Run) string {
	switch {
	case r.Due.IsZero():
		return ""
	case st.Paused:
		return fmt.Sprintf(" Its time is up at %s: that has no effect while the saga is paused.",
			formatTime(r.Due))
	}
	return fmt.Sprintf(" Its time is up at %s.", formatTime(r.Due))
}

// SagaCheck describes the effect of the next build on the running sagas of one definition.
type SagaCheck struct {
	Name     string     `json:"name"`
	Hash     string     `json:"hash"` // the definition of the sagas
	Sagas    int        `json:"sagas"`
	Continue int        `json:"moves"` // the number of sagas that the next build continues
	Changes  []string   `json:"changes,omitempty"`
	Refused  []LeftSaga `json:"refused,omitempty"` // at most 100
	Last     bool       `json:"last,omitempty"`    // the last definition in the database; see CheckDefinitions
}

const maxRefused = 100

// CheckSagas compares the running sagas with the definitions of the next build. definitions is the output of
// saga.Write.
func CheckSagas(ctx context.Context, db store.Lister, definitions io.Reader) (out []SagaCheck, err error) {
	next, err := readNext(definitions)
	if err != nil {
		return nil, err
	}
	plans, err := readPlans(ctx, db)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for _, status := range []plan.Status{plan.Running, plan.Compensating} {
		s := SagaSelection{Status: string(status)}
		if err := eachSaga(ctx, db, &s, false, func(one store.Saga) error {
			i, ok := at[one.Name+"\x00"+one.Hash]
			if !ok {
				i = len(out)
				at[one.Name+"\x00"+one.Hash] = i
				out = append(out, checkOf(&one, plans[one.Hash], next))
			}
			out[i].add(&one, plans[one.Hash], next)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// CheckDefinitions compares the newest definition of each name in the database with the definitions of the
// next build. So it also covers sagas that start before the next build runs. It omits checks without
// changes.
func CheckDefinitions(ctx context.Context, db store.Lister,
	definitions io.Reader) (out []SagaCheck, err error) {
	next, err := readNext(definitions)
	if err != nil {
		return nil, err
	}
	l, err := db.List(ctx, store.List{Definitions: true})
	if err != nil {
		return nil, err
	}
	plans, seen := plansOf(l.Definitions), map[string]bool{}
	for i := range l.Definitions { // the newest definition of each name comes first
		d := &l.Definitions[i]
		if seen[d.Name] {
			continue
		}
		seen[d.Name] = true
		c := checkOf(&store.Saga{Name: d.Name, Hash: d.Hash}, plans[d.Hash], next)
		if c.Last = true; len(c.Changes) > 0 {
			out = append(out, c)
		}
	}
	return out, nil
}

// readNext reads the definitions of the next build, by name.
func readNext(definitions io.Reader) (map[string]plan.Written, error) {
	text, err := io.ReadAll(definitions)
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	f, err := plan.Read(bytes.NewReader(text))
	switch {
	case err != nil:
		return nil, &UsageError{Reason: err.Error()}
	case !json.Valid(text):
		return nil, &UsageError{Reason: "read definitions: the file has text after them: " +
			"give a file that one call of saga.Write has written, with all definitions of the build"}
	}
	next := map[string]plan.Written{}
	for _, w := range f.Definitions {
		next[w.Graph.Name] = w
	}
	return next, nil
}

// checkOf returns a check for the definition of the saga s. It does not count sagas: see SagaCheck.add.
func checkOf(s *store.Saga, p *plan.Plan, next map[string]plan.Written) SagaCheck {
	c := SagaCheck{Name: s.Name, Hash: s.Hash}
	w, ok := next[s.Name]
	switch {
	case !ok:
		c.Changes = []string{"the next build has no definition of this name: run the older build until these sagas have ended"}
	case p == nil:
		c.Changes = []string{"no engine has stored their definition, so they cannot be compared"}
	case w.Hash != s.Hash:
		for _, change := range plan.Compare(p.Graph, w.Graph, mappingFrom(w, s.Hash)) {
			c.Changes = append(c.Changes, change.String())
		}
	}
	return c
}

func mappingFrom(w plan.Written, hash string) plan.Mapping {
	for _, m := range w.Mappings {
		if m.From == hash {
			return m
		}
	}
	return plan.Mapping{}
}

func (c *SagaCheck) add(one *store.Saga, p *plan.Plan, next map[string]plan.Written) {
	c.Sagas++
	w, ok := next[one.Name]
	why := ""
	switch {
	case !ok || p == nil:
		why = c.Changes[0]
	case w.Hash != one.Hash:
		st, err := sagarow.StateOf(*one, 0)
		if err == nil {
			_, err = plan.Move(p.Graph, w.Graph, mappingFrom(w, one.Hash), st)
		}
		if err != nil {
			why = err.Error()
		}
	}
	if why == "" {
		c.Continue++
	} else if len(c.Refused) < maxRefused {
		c.Refused = append(c.Refused, LeftSaga{Name: one.Name, Key: one.Key, Why: why})
	}
}
