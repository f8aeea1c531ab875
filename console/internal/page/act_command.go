package page

import (
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/operate"
)

// callFlag is a flag with a placeholder: the operator replaces it by the outcome of a call.
const callFlag = "--call 'done or refused'"

// baseCommand adds to a command the flags in dbFlags, which select the database.
func baseCommand(command, dbFlags string) string {
	if dbFlags == "" {
		return command
	}
	return command + " " + dbFlags
}

// Command returns the command line of a verb on selected messages. If hasCalls is true, a drop gets a flag
// for the outcome of calls that have no answer.
func Command(dbFlags string, verb string, sel *operate.Selection, hasCalls bool) string {
	c := baseCommand("skald dead "+verb, dbFlags)
	if !sel.Dead {
		c = baseCommand("skald parked "+verb, dbFlags)
	}
	for _, f := range [][2]string{{"consumer", sel.Consumer}, {"source", sel.Source},
		{"key", Key(sel.Key)}, {"topic", sel.Topic}, {"type", sel.Type},
		{"fingerprint", sel.Fingerprint}, {"kind", sel.Kind}, {"since", Time(sel.DeadFrom)},
		{"until", Time(sel.DeadTo)}} {
		if f[1] != "" {
			c += " --" + f[0] + " " + shortlog.Shell(f[1])
		}
	}
	if sel.All {
		c += " --all"
	}
	if verb == "redrive" && sel.ID == "" {
		c += " --canary"
	}
	if verb == "drop" && hasCalls {
		c += " " + callFlag
	}
	c += " --reason 'why'"
	if sel.ID != "" {
		c += " -- " + shortlog.Shell(sel.ID) // after --, because an id may begin with a dash
	}
	return c
}

// DoctorCommand returns the command line that checks a database.
func DoctorCommand(at string) string { return baseCommand("skald doctor", at) }

// LookCommand returns the command line that shows a message in quarantine, with its payload.
func LookCommand(at, consumer, from, id string) string {
	c := baseCommand("skald inbox show", at)
	return c + " --consumer " + shortlog.Shell(consumer) + " --source " + shortlog.Shell(from) + " --json -- " +
		shortlog.Shell(id)
}

// AdmitCommand returns the command line that admits messages from quarantine.
func AdmitCommand(at string, a *operate.Admission, why string) string {
	c := orderCommand("skald inbox admit", at, "consumer", a.Consumer, "number", Digits(a.Number),
		"topic", a.Topic, "type", a.Type, "why", why)
	if a.All {
		c += " --all"
	}
	if a.ID != "" {
		c += " -- " + shortlog.Shell(a.ID)
	}
	return c
}

// ConsumerCommand returns the command line of a verb on a consumer. flags has names and values in turn.
func ConsumerCommand(at, verb string, flags ...string) string {
	return orderCommand("skald consumer "+verb, at, flags...)
}

func orderCommand(command, at string, flags ...string) string {
	c := baseCommand(command, at)
	for i := 0; i+1 < len(flags); i += 2 {
		if flags[i+1] != "" {
			c += " --" + flags[i] + " " + shortlog.Shell(flags[i+1])
		}
	}
	return c + " --reason 'why'"
}

// SagaCommand returns the command line of a verb on one saga.
func SagaCommand(at string, c *operate.SagaChange, sel *operate.SagaSelection) string {
	text := baseCommand("skald saga "+string(c.Verb), at)
	if c.Step != "" {
		text += " --step " + shortlog.Shell(c.Step)
	}
	if c.Occurrence != "" {
		text += " --occurrence " + shortlog.Shell(c.Occurrence)
	}
	if c.Verb == operate.CompleteSaga {
		text += " --data '…'"
	}
	return text + " --reason 'why' -- " + shortlog.Shell(sel.Name) + " " + shortlog.Shell(sel.Key)
}

// SagasCommand returns the command line of a verb on all selected sagas.
func SagasCommand(at string, c *operate.SagaChange, sel *operate.SagaSelection) string {
	text := baseCommand("skald saga "+string(c.Verb), at)
	for _, f := range [][2]string{{"name", sel.Name}, {"id", sel.ID}, {"status", sel.Status},
		{"at", sel.Step}, {"error", sel.Error}, {"until", Time(sel.StartedBefore)}} {
		if f[1] != "" {
			text += " --" + f[0] + " " + shortlog.Shell(f[1])
		}
	}
	for _, f := range []struct {
		name string
		is   bool
	}{{"stuck", sel.Stuck}, {"failing", sel.Failing}, {"paused", sel.Paused}, {"all", sel.All}} {
		if f.is {
			text += " --" + f.name
		}
	}
	text += " --reason 'why'"
	if sel.Key != "" {
		text += " -- " + shortlog.Shell(sel.Key)
	}
	return text
}

// CompensateCommand returns the command line that compensates one choreographed saga.
func CompensateCommand(at string, w operate.CompensateRequest) string {
	text := baseCommand("skald compensate", at)
	if w.Flow != "" {
		text += " --flow " + shortlog.Shell(w.Flow)
	}
	return text + " --reason 'why' -- " + shortlog.Shell(w.Key)
}

// FlowsCommand returns the command line that compensates all selected choreographed sagas.
func FlowsCommand(at string, sel *operate.FlowSelection) string {
	text := baseCommand("skald compensate", at)
	if sel.Flow != "" {
		text += " --flow " + shortlog.Shell(sel.Flow)
	}
	if sel.State != "" {
		text += " --state " + shortlog.Shell(sel.State)
	}
	if sel.Overdue {
		text += " --overdue"
	}
	return text + " --reason 'why'"
}
