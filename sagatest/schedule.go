package sagatest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Mode is a fault at an I/O.
type Mode string

// The modes of Explore.
const (
	CrashBefore Mode = "crash-before" // the process dies, and the I/O does not happen
	CrashAfter  Mode = "crash-after"  // the process dies after the I/O took effect
	ErrorAfter  Mode = "error-after"  // the I/O took effect, but returns an outage
	// PartFirst means that the first half of a publish or an apply takes effect, and the call returns an
	// outage.
	PartFirst Mode = "part-first"
	// PartLast means that a publish stores all messages except those with the key of the first message, and
	// returns correct errors.
	PartLast Mode = "part-last"
	// Pause means that the process waits before the I/O until all other processes are idle.
	Pause Mode = "pause"
)

func modes() []Mode {
	return []Mode{CrashBefore, CrashAfter, ErrorAfter, PartFirst, PartLast, Pause}
}

// Fault is one fault at an I/O. The I/Os are counted from 1.
type Fault struct {
	Mode Mode
	At   int
}

// Schedule is the list of faults of a run.
type Schedule []Fault

// String returns the schedule as text, such as "crash-after@17,crash-before@40". ParseSchedule parses this
// text.
func (s Schedule) String() string {
	parts := make([]string, len(s))
	for i, f := range s {
		parts[i] = string(f.Mode) + "@" + strconv.Itoa(f.At)
	}
	return strings.Join(parts, ",")
}

// ParseSchedule parses the text of a schedule, as String returns it. "" and "none" mean no fault.
func ParseSchedule(text string) (s Schedule, err error) { return parseSchedule(text, modes()) }

func parseSchedule(text string, modes []Mode) (s Schedule, err error) {
	if text == "" || text == "none" {
		return nil, nil
	}
	for _, part := range strings.Split(text, ",") {
		mode, at, _ := strings.Cut(part, "@")
		n, err := strconv.Atoi(at)
		if err != nil || n < 1 || !slices.Contains(modes, Mode(mode)) {
			return nil, fmt.Errorf("schedule %q: %q is not MODE@NUMBER with a mode of %v", text, part, modes)
		}
		s = append(s, Fault{Mode(mode), n})
	}
	return s, nil
}

// values returns the faults of the mode Value.
func (s Schedule) values() (out Schedule) {
	for _, f := range s {
		if f.Mode == Value {
			out = append(out, f)
		}
	}
	return out
}

func (s Schedule) at(n int) Mode {
	for _, f := range s {
		if f.At == n {
			return f.Mode
		}
	}
	return ""
}

func (s Schedule) pauses() bool {
	return slices.ContainsFunc(s, func(f Fault) bool { return f.Mode == Pause })
}
