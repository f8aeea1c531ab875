package sagatest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Mode is what goes wrong at an I/O.
type Mode string

// Modes.
const (
	CrashBefore Mode = "crash-before" // the process dies, and the I/O did not happen
	CrashAfter  Mode = "crash-after"  // the process dies, and the I/O took effect
	ErrorAfter  Mode = "error-after"  // the I/O took effect and answers with an outage
	// PartFirst: the first half of a publish or an apply took effect, and the answer is an outage.
	PartFirst Mode = "part-first"
	// PartLast: a publish makes all but the key of the first message durable, and its answer is right.
	PartLast Mode = "part-last"
	// Pause: the process waits before the I/O until all others are idle.
	Pause Mode = "pause"
)

func modes() []Mode {
	return []Mode{CrashBefore, CrashAfter, ErrorAfter, PartFirst, PartLast, Pause}
}

// Fault is one thing that goes wrong, at the I/O of that number; the first is 1.
type Fault struct {
	Mode Mode
	At   int
}

// Schedule is what goes wrong in one run.
type Schedule []Fault

// String is what ParseSchedule reads: "crash-after@17,crash-before@40".
func (s Schedule) String() string {
	parts := make([]string, len(s))
	for i, f := range s {
		parts[i] = string(f.Mode) + "@" + strconv.Itoa(f.At)
	}
	return strings.Join(parts, ",")
}

// ParseSchedule reads a schedule as String writes it; "" or "none" is the run in which nothing goes wrong.
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

// values are those of what others bring.
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
