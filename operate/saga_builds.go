package operate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// engineTTL is the time for which an engine counts as running after it stored its definitions. An engine
// stores them each minute.
const engineTTL = 3 * time.Minute

// maxUnclaimed is the time after which a due saga proves that no engine runs it. An idle engine checks for
// due sagas every 8 s.
const maxUnclaimed = 15 * time.Second

// whyNoEngine explains why no engine runs s. It returns "" if a running engine can run s, or runs it now.
// The argument definitions has the definitions that engines have stored. After an engine has ended, a due
// saga shows that within maxUnclaimed, and the stored definitions only after engineTTL.
func whyNoEngine(s *store.Saga, definitions []store.SagaDefinition) string {
	var own *store.SagaDefinition
	var run []*store.SagaDefinition
	for i := range definitions {
		d := &definitions[i]
		if d.Name != s.Name {
			continue
		}
		if d.Hash == s.Hash {
			own = d
		}
		if s.Read.Sub(d.Noted) < engineTTL {
			run = append(run, d)
		}
	}
	leased := s.Session != "" && s.Read.Before(s.Due)
	if own == nil || leased || !s.Ended.IsZero() {
		return ""
	}
	since := fmt.Sprintf("No engine with its definition (%s) has run since %s", s.Hash, formatTime(own.Noted))
	if len(run) == 0 {
		return since + ", and no engine with another definition of its name runs: start the service with this saga."
	}
	late := !s.Due.IsZero() && !s.Paused && s.Read.Sub(s.Due) > maxUnclaimed
	if late && slices.Contains(run, own) && len(run) > 1 {
		since = fmt.Sprintf("It has been due since %s, and waits for an engine with its definition (%s), which an engine "+
			"last stored at %s", formatTime(s.Due), s.Hash, formatTime(own.Noted))
		run = slices.DeleteFunc(run, func(d *store.SagaDefinition) bool { return d == own })
	}
	for _, d := range run {
		why := refuses(d, own)
		if why == "" {
			return ""
		}
		since += fmt.Sprintf("; engines with %s run, but %s", d.Hash, why)
	}
	return since + ". Start the build with its definition."
}

// refuses explains why engines with the definition d do not run sagas of the definition sagaDef. It returns
// "" if these engines run the sagas, or if both definitions are the same.
func refuses(d, sagaDef *store.SagaDefinition) string {
	if d.Hash == sagaDef.Hash {
		return ""
	}
	is, w := definitionOf(d)
	was, _ := definitionOf(sagaDef)
	m := mappingFrom(w, sagaDef.Hash)
	switch {
	case is.DecodeError != "" || was.DecodeError != "":
		return "this build cannot read it"
	case d.Number <= sagaDef.Number && m.From == "":
		return "that definition is not a later one, and it takes such sagas only with a saga.Mapping whose From is " +
			sagaDef.Hash
	}
	var why []string
	for _, c := range plan.Compare(was.graph, is.graph, m) {
		if c.Class == plan.Refuses && c.Begun == "" {
			why = append(why, c.String())
		}
	}
	return strings.Join(why, "; ")
}
