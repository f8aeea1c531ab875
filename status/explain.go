package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// Word returns the state of a saga in a few words, such as "running, overdue".
func (s *Saga) Word() string {
	word := s.State
	for _, more := range []struct {
		is   bool
		what string
	}{{s.Stuck, "stuck"}, {s.Paused, "paused"}, {s.Overdue, "overdue"}} {
		if more.is {
			word += ", " + more.what
		}
	}
	return word
}

// Again returns a text about the step in s.Retrying, such as "is retrying, attempt 4, failing since T, next
// in 5s". It returns "" if no step is retrying.
func (s *Saga) Again(now time.Time) string {
	r := s.Retrying
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("is retrying, attempt %d", r.Attempt)
	switch {
	case s.Stuck && r.Attempt == 1: // the step crashed its process
		text = "is stuck"
	case s.Stuck:
		text = fmt.Sprintf("is stuck after it failed %s", times(r.Attempt-1))
	}
	if r.Since != nil {
		text += ", failing since " + moment(*r.Since)
	}
	switch {
	case s.Stuck || s.Paused:
	case r.Next != nil && r.Next.After(now):
		text += ", next in " + r.Next.Sub(now).Round(time.Second).String()
	default:
		text += ", next now"
	}
	return text
}

// Explain returns sentences about the answer a. The argument now is the current time. The readers of the
// sentences know the order but not Skald.
func Explain(a *Answer, now time.Time) (lines []string) {
	for i := range a.Sagas {
		lines = append(lines, a.Sagas[i].explain(now)...)
	}
	if len(a.Sagas) == 0 {
		lines = append(lines, fmt.Sprintf("No service that answered has a saga for %s.", a.Key))
	}
	for i := range a.Held {
		lines = append(lines, a.Held[i].explain())
	}
	for _, s := range a.Silent {
		lines = append(lines, fmt.Sprintf("%s did not answer (%s): its state is not known.",
			s.Service, s.Why))
	}
	return lines
}

func (s *Saga) explain(now time.Time) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	name := s.Name + " " + s.Key
	switch s.State {
	case "done":
		say("%s is done.", name)
	case "compensated":
		say("%s %s.", name, s.turned("is undone"))
	case "compensating":
		say("%s %s.", name, s.turned("is being undone"))
	default:
		say("%s has been running since %s.", name, moment(s.Started))
	}
	if s.Why != "" {
		say("It turned back because %s.", s.Why)
	}
	did := map[string][]string{}
	for i := range s.Steps {
		did[s.Steps[i].Outcome] = append(did[s.Steps[i].Outcome], s.Steps[i].Name)
	}
	for _, one := range [][2]string{{operate.StepDone, "Done so far: %s."},
		{operate.StepFailed, "Refused or failed: %s."}, {operate.StepSkipped, "Skipped: %s."},
		{operate.StepUndone, "Done and then undone: %s."},
		{operate.StepUndoing, "Being undone now: %s."}} {
		if len(did[one[0]]) > 0 {
			say(one[1], strings.Join(did[one[0]], ", "))
		}
	}
	for i := range s.Waiting {
		say("%s", waits(&s.Waiting[i], now))
	}
	lines = append(lines, s.troubles(now)...)
	if len(s.Remaining) > 0 {
		say("Still to come: %s.", strings.Join(s.Remaining, ", "))
	}
	if s.State == "running" && len(s.Undo) > 0 {
		say("If it fails, this is undone: %s.", strings.Join(s.Undo, ", "))
	}
	if s.State == "running" && len(s.Stays) > 0 {
		say("This is never undone: %s.", strings.Join(s.Stays, ", "))
	}
	if s.TraceURL != "" {
		say("Its trace: %s", s.TraceURL)
	}
	return lines
}

// turned returns a text about the failure of a saga and the state of its effects. For a choreographed saga,
// this text depends on the steps that were reported.
func (s *Saga) turned(undone string) string {
	has := func(outcome string) bool {
		return slices.ContainsFunc(s.Steps,
			func(one operate.StepProgress) bool { return one.Outcome == outcome })
	}
	switch {
	case s.Style != operate.Choreographed:
	case !has(operate.StepFailed): // an operator requested the undo, or the failure event has not arrived yet
		return "turned back, and its work " + undone
	case !has(operate.StepUndone) && !has(operate.StepUndoing) && len(s.Undo) == 0:
		return "failed, and nothing has to be undone"
	}
	return "failed, and its work " + undone
}

// troubles returns sentences about the reasons for which s does not continue, with the remedies.
func (s *Saga) troubles(now time.Time) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if s.Overdue && s.Style == operate.Choreographed {
		say("That is later than it should be.")
	} else if text := s.Deadline(now); text != "" {
		say("Its deadline: %s.", text)
	} else if s.Overdue {
		say("Its deadline passed after its pivot, so it continues.")
	}
	if r := s.Retrying; r != nil {
		say("%s %s. The last error: %s", r.Step, s.Again(now), r.Error)
	}
	if s.Stuck {
		say("It does not continue by itself: remove the cause, and then run: %s", s.command(0))
	}
	if s.Paused {
		say("An operator paused it. To continue: %s", s.command(len(s.Commands)-1))
	}
	if len(s.Missing) > 0 {
		say("An event arrived that follows %s, which has not arrived: it is delayed or lost.",
			strings.Join(s.Missing, " or "))
	}
	for _, a := range s.RequestedUndos {
		say("An operator requested at %s that %s is undone, and no event has reported it yet.",
			moment(a.At), a.Step)
	}
	for _, d := range s.Drift {
		say("It does not follow its declaration: %s.", strings.TrimRight(d, "."))
	}
	return lines
}

// command returns the nth command that unblocks s. A service with another build may return no commands.
func (s *Saga) command(n int) string {
	if n < 0 || n >= len(s.Commands) {
		return "skald saga explain, at its service"
	}
	return s.Commands[n]
}

func waits(w *operate.Wait, now time.Time) string {
	text := ""
	switch w.Kind {
	case operate.WaitEvent:
		text = fmt.Sprintf("After %s it waits for %s", w.After, strings.Join(w.For, " or "))
	case operate.WaitSignal:
		text = fmt.Sprintf("%s waits for the signal %s", w.After, strings.Join(w.For, " or "))
	case operate.WaitEntities:
		text = fmt.Sprintf("%s waits until other sagas release %s", w.After, w.ForText())
	case operate.WaitTime:
		text = w.After + " waits for its time"
	case operate.WaitChild:
		text = w.After + " waits for the saga that it started"
	default:
		text = w.After + " waits for an answer"
	}
	if w.Since != nil {
		text += ", since " + moment(*w.Since)
	}
	if w.Due != nil && w.Due.After(now) {
		text += fmt.Sprintf(", for at most %s from now", w.Due.Sub(now).Round(time.Second))
	} else if w.Due != nil {
		text += ", and it was due at " + moment(*w.Due)
	}
	return text + "."
}

func (h *Held) explain() string {
	at := h.Consumer
	if h.Service != "" {
		at += " of " + h.Service
	}
	text := ""
	switch {
	case h.State == "dead" && h.Kind == failure.KindRejected:
		return fmt.Sprintf(
			"%s rejected %s (%s): %s. The rejection is final, and messages after it wait until an operator drops it: %s",
			at, h.Type, h.ID, strings.TrimRight(h.LastError, "."), h.Command)
	case h.State == "parked":
		text = fmt.Sprintf("%s could not handle %s (%s) so far, and retries it automatically.", at, h.Type, h.ID)
	case h.State == "dead":
		text = fmt.Sprintf("%s gave up %s (%s): an operator has to decide.", at, h.Type, h.ID)
	default:
		return fmt.Sprintf("%s put %s (%s) into quarantine: %s. An operator has to decide. To see it: %s; to deliver it: %s",
			at, h.Type, h.ID, h.Doubt(), h.ShowCommand, h.Command)
	}
	if h.LastError != "" {
		text += fmt.Sprintf(" It failed %s since %s, last with: %s.", times(max(1, h.Attempts)),
			moment(h.Since), strings.TrimRight(h.LastError, "."))
	}
	if h.State == "dead" && h.Kind == string(failure.Malformed) {
		return text + " Another attempt would read the same payload: " + h.Command
	}
	return text + " After the cause is removed: " + h.Command
}

// Doubt returns the reason for which a message is in quarantine.
func (h *Held) Doubt() string {
	if h.Kind == store.Conflict.String() {
		return "another message with its id and another payload was handled before"
	}
	return "it is older than the retention of marks, so it may have been handled before"
}
