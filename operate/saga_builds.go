package operate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// lives is for how long an engine counts as one that runs after it noted its definitions: it does so each
// minute.
const lives = 3 * time.Minute

// unclaimed is how long a saga may be due before that shows that no engine takes it: idle engines look once
// in 8 s.
const unclaimed = 15 * time.Second

// noBuild says why no engine that runs goes on with s; "": one does, or has it in hand. All are the
// definitions that engines have noted. A saga that stays due shows it sooner than the notes do.
func noBuild(s *store.Saga, all []store.SagaDefinition) string {
	var own *store.SagaDefinition
	var run []*store.SagaDefinition
	for i := range all {
		d := &all[i]
		if d.Name != s.Name {
			continue
		}
		if d.Hash == s.Hash {
			own = d
		}
		if s.Read.Sub(d.Noted) < lives {
			run = append(run, d)
		}
	}
	leased := s.Session != "" && s.Read.Before(s.Due)
	if own == nil || leased || !s.Ended.IsZero() {
		return ""
	}
	since := fmt.Sprintf("No engine with its definition (%s) has run since %s", s.Hash, timeText(own.Noted))
	if len(run) == 0 {
		return since + ", nor one with another definition of its name: start the service that has it."
	}
	late := !s.Due.IsZero() && !s.Paused && s.Read.Sub(s.Due) > unclaimed
	if late && slices.Contains(run, own) && len(run) > 1 {
		since = fmt.Sprintf("It is due since %s, and waits for an engine with its definition (%s), which one "+
			"last noted at %s", timeText(s.Due), s.Hash, timeText(own.Noted))
		run = slices.DeleteFunc(run, func(d *store.SagaDefinition) bool { return d == own })
	}
	for _, d := range run {
		why := refuses(d, own)
		if why == "" {
			return ""
		}
		since += fmt.Sprintf("; engines with %s run, but %s", d.Hash, why)
	}
	return since + ". Start the build that has it."
}

// refuses says why engines of the definition d take on no saga of another one; "": they do, or it is own.
func refuses(d, own *store.SagaDefinition) string {
	if d.Hash == own.Hash {
		return ""
	}
	is, w := definitionOf(d)
	was, _ := definitionOf(own)
	m := mappingFrom(w, own.Hash)
	switch {
	case is.Unread != "" || was.Unread != "":
		return "it cannot be read here"
	case d.Number <= own.Number && m.From == "":
		return "that is not a later one, and they take no saga back unless it has a saga.Mapping whose From is " +
			own.Hash
	}
	var why []string
	for _, c := range plan.Compare(was.graph, is.graph, m) {
		if c.Class == plan.Refuses && c.Begun == "" {
			why = append(why, c.String())
		}
	}
	return strings.Join(why, "; ")
}
