package page

import (
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/operate"
)

// sayCall stands in a command for what somebody finds at the provider, as 'why' stands for a reason.
const sayCall = "--call 'done or refused'"

// begun is a command that finds its database by at.
func begun(command, at string) string {
	if at == "" {
		return command
	}
	return command + " " + at
}

// Command is what to type for a verb on what is selected. A drop of what is at calls without an answer has
// to say what became of them.
func Command(at string, verb string, sel *operate.Selection, calls bool) string {
	c := begun("skald dead "+verb, at)
	if !sel.Dead {
		c = begun("skald parked "+verb, at)
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
	if verb == "drop" && calls {
		c += " " + sayCall
	}
	c += " --reason 'why'"
	if sel.ID != "" {
		c += " -- " + shortlog.Shell(sel.ID) // which may begin with a dash
	}
	return c
}

// DoctorCommand is what to type to have the doctor look at a database.
func DoctorCommand(at string) string { return begun("skald doctor", at) }

// LookCommand is what to type to see a message in quarantine, with its payload.
func LookCommand(at, consumer, from, id string) string {
	c := begun("skald inbox show", at)
	return c + " --consumer " + shortlog.Shell(consumer) + " --source " + shortlog.Shell(from) + " --json -- " +
		shortlog.Shell(id)
}

// AdmitCommand is what to type to admit what is chosen.
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

// ConsumerCommand returns the command line of a verb on a consumer; flags alternates names and values.
func ConsumerCommand(at, verb string, flags ...string) string {
	return orderCommand("skald consumer "+verb, at, flags...)
}

func orderCommand(command, at string, flags ...string) string {
	c := begun(command, at)
	for i := 0; i+1 < len(flags); i += 2 {
		if flags[i+1] != "" {
			c += " --" + flags[i] + " " + shortlog.Shell(flags[i+1])
		}
	}
	return c + " --reason 'why'"
}

// SagaCommand is what to type for a verb on one saga.
func SagaCommand(at string, c *operate.SagaChange, sel *operate.SagaSelection) string {
	text := begun("skald saga "+string(c.Verb), at)
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

// SagasCommand is what to type for a verb on all sagas that are selected.
func SagasCommand(at string, c *operate.SagaChange, sel *operate.SagaSelection) string {
	text := begun("skald saga "+string(c.Verb), at)
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

// CompensateCommand is what to type to compensate one choreographed saga.
func CompensateCommand(at string, w operate.Wish) string {
	text := begun("skald compensate", at)
	if w.Flow != "" {
		text += " --flow " + shortlog.Shell(w.Flow)
	}
	return text + " --reason 'why' -- " + shortlog.Shell(w.Key)
}

// FlowsCommand is what to type to compensate all choreographed sagas that are selected.
func FlowsCommand(at string, sel *operate.FlowSelection) string {
	text := begun("skald compensate", at)
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
