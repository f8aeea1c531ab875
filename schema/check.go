package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The levels of compatibility. Check compares a schema with all versions of its subject.
const (
	Backward = "BACKWARD" // the new schema can read payloads of older schemas
	Forward  = "FORWARD"  // older schemas can read payloads of the new schema
	Full     = "FULL"     // both
	None     = "NONE"     // no comparison
)

// Verdict is the result of Check for one subject.
type Verdict struct {
	Subject string  `json:"subject"`
	State   State   `json:"state"`
	Version int     `json:"version,omitempty"` // the equal version, if the state is Registered
	Level   string  `json:"level"`             // the level that was applied
	Against int     `json:"against"`           // the number of compared versions
	Breaks  []Break `json:"breaks,omitempty"`
}

// State is the state of a schema compared with a registry.
type State string

// The states.
const (
	New          State = "new"          // the registry has no version of the subject
	Registered   State = "registered"   // the schema is equal to a version of the subject
	Compatible   State = "compatible"   // the schema can be pushed
	Incompatible State = "incompatible" // see Breaks
	Unchecked    State = "unchecked"    // the level is NONE
)

// Break is a problem between the schema of the program and one version.
type Break struct {
	Version int    `json:"version"`
	Reader  string `json:"reader"` // such as "this program" or "version 3"
	Problem
}

// Check compares the schemas of a lock with all versions of their subjects, by the rules of formats. If level
// is not empty, it replaces the level of the registry.
func Check(lock Lock, versions Versions, level string, formats ...Format) ([]Verdict, error) {
	var out []Verdict
	for _, l := range lock.Subjects {
		i := slices.IndexFunc(versions.Subjects,
			func(h SubjectHistory) bool { return h.Subject == l.Subject })
		if i < 0 {
			return out,
				fmt.Errorf("subject %s: its versions were not pulled; run: skald schema pull",
					l.Subject)
		}
		v, err := check(l, versions.Subjects[i], level, formats)
		if err != nil {
			return out, fmt.Errorf("subject %s: %w", l.Subject, err)
		}
		out = append(out, v)
	}
	return out, nil
}

func check(l Locked, h SubjectHistory, level string, formats []Format) (Verdict, error) {
	v := Verdict{Subject: l.Subject, State: Compatible, Level: h.Level}
	if level != "" {
		v.Level = level
	}
	if !slices.Contains([]string{Backward, Forward, Full, None}, v.Level) {
		return v, fmt.Errorf("its level of compatibility %q is none of %s, %s, %s, %s: give --level", v.Level,
			Backward, Forward, Full, None)
	}
	own, err := l.Whole()
	if err != nil {
		return v, err
	}
	i := slices.IndexFunc(formats, func(f Format) bool { return f.Name() == l.Format })
	if i < 0 {
		return v, fmt.Errorf("its format %q is none of %s, %s, %s", l.Format, Avro, Protobuf, JSON)
	}
	if _, err := formats[i].Problems(own, own); err != nil {
		return v, fmt.Errorf("the schema of this program: %w", err)
	}
	for _, old := range h.Versions {
		was, err := old.Whole()
		if err != nil {
			return v, fmt.Errorf("version %d: %w", old.Version, err)
		}
		if equalText(own, was) {
			v.Version = old.Version
		}
		if v.Level == None {
			continue
		}
		breaks, err := against(formats[i], v.Level, old.Version, own, was)
		if err != nil {
			return v, fmt.Errorf("version %d: %w", old.Version, err)
		}
		v.Breaks, v.Against = append(v.Breaks, breaks...), v.Against+1
	}
	switch {
	case len(v.Breaks) > 0:
		v.State = Incompatible
	case v.Version > 0:
		v.State = Registered
	case len(h.Versions) == 0:
		v.State = New
	case v.Level == None:
		v.State = Unchecked
	}
	return v, nil
}

func against(f Format, level string, version int, own, was Schema) (out []Break, err error) {
	named := fmt.Sprintf("version %d", version)
	if was.Format != own.Format {
		return []Break{{version, named, Problem{Field: "all", Rule: "another format", Observed: "this program " +
			own.Format + ", " + named + " " + was.Format}}}, nil
	}
	look := func(who string, reader, writer Schema) {
		if err != nil {
			return
		}
		var found []Problem
		found, err = f.Problems(reader, writer)
		if limit := new(LimitError); errors.As(err, &limit) {
			found, err = []Problem{limit.problem()}, nil
		}
		for _, p := range found {
			out = append(out, Break{version, who, p})
		}
	}
	if level == Backward || level == Full {
		look("this program", own, was)
	}
	if level == Forward || level == Full {
		look(named, was, own)
	}
	return out, err
}

// equalText returns true if the schemas a and b are equal. It ignores white space, because registries
// change it.
func equalText(a, b Schema) bool {
	return a.Format == b.Format && strings.Join(strings.Fields(a.Text),
		" ") == strings.Join(strings.Fields(b.Text), " ")
}
