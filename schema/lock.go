package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Lock has the schemas of a program. It is stored in a file next to the code. WriteLock writes the file, and
// the command skald schema reads it.
type Lock struct {
	Lock     int      `json:"lock"` // the version of the file format
	Subjects []Locked `json:"subjects"`
}

// Locked is the schema of one subject.
type Locked struct {
	Subject string   `json:"subject"`
	Events  []string `json:"events"` // the topic and the type of each event
	Text
}

const lockForm = 1

// Text is a schema in a form that is readable in a file. Avro and JSON schemas are objects, and Protobuf is a
// list of lines.
type Text struct {
	Format  string          `json:"format"`
	Schema  json.RawMessage `json:"schema"`
	Imports []textImport    `json:"imports,omitempty"`
}

type textImport struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Needs  []string        `json:"needs,omitempty"`
}

func textOf(s Schema) Text {
	out := Text{Format: s.Format, Schema: shown(s.Format, s.Text)}
	for _, i := range s.Imports {
		out.Imports = append(out.Imports, textImport{Name: i.Name, Schema: shown(s.Format, i.Text),
			Needs: i.Needs})
	}
	return out
}

func shown(format, text string) json.RawMessage {
	if format != Protobuf && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	out, _ := json.Marshal(strings.Split(strings.TrimSuffix(text, "\n"), "\n")) // strings always marshal
	return out
}

// Whole returns the schema of t.
func (t Text) Whole() (Schema, error) {
	out := Schema{Format: t.Format}
	var err error
	if out.Text, err = plain(t.Format, t.Schema); err != nil {
		return out, err
	}
	for _, i := range t.Imports {
		text, err := plain(t.Format, i.Schema)
		if err != nil {
			return out, fmt.Errorf("import %s: %w", i.Name, err)
		}
		out.Imports = append(out.Imports, Import{Name: i.Name, Text: text, Needs: i.Needs})
	}
	return out, nil
}

func plain(format string, shown json.RawMessage) (string, error) {
	if format != Protobuf {
		var out bytes.Buffer
		err := json.Compact(&out, shown)
		return out.String(), err
	}
	var lines []string
	if err := json.Unmarshal(shown, &lines); err != nil {
		return "", errors.New("a schema in Protobuf is a list of lines")
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// WriteLock writes the schemas of events to w, sorted by subject. The command skald schema check compares
// them with a registry. WriteLock skips events without a schema. It returns an error if no event has a
// schema.
func WriteLock(w io.Writer, events ...Declaration) error {
	out := Lock{Lock: lockForm}
	for _, e := range events {
		topic, typ, codec := e.Declared()
		c, ok := codec.(*Codec)
		if !ok {
			continue
		}
		s, err := c.own()
		if err != nil {
			return fmt.Errorf("write lock: %s of topic %s: %w", typ, topic, err)
		}
		if err := out.add(Locked{Subject: c.subject(topic, typ), Events: []string{topic + " " + typ},
			Text: textOf(s.Schema)}); err != nil {
			return fmt.Errorf("write lock: %w", err)
		}
	}
	if len(out.Subjects) == 0 {
		return errors.New("write lock: none of the events has a codec with a schema")
	}
	slices.SortFunc(out.Subjects, func(a, b Locked) int { return strings.Compare(a.Subject, b.Subject) })
	return writeJSON(w, out)
}

func (l *Lock) add(one Locked) error {
	i := slices.IndexFunc(l.Subjects, func(s Locked) bool { return s.Subject == one.Subject })
	if i < 0 {
		l.Subjects = append(l.Subjects, one)
		return nil
	}
	was := &l.Subjects[i]
	if was.Format != one.Format || !bytes.Equal(was.Schema, one.Schema) {
		return fmt.Errorf(
			"%s and %s have different schemas under one subject, %s: set Options.Subject of one",
			was.Events[0], one.Events[0], one.Subject)
	}
	if !slices.Contains(was.Events, one.Events[0]) {
		was.Events = append(was.Events, one.Events...)
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// ReadLock reads a file of WriteLock.
func ReadLock(r io.Reader) (Lock, error) {
	var out Lock
	if err := json.NewDecoder(r).Decode(&out); err != nil {
		return out, fmt.Errorf("read lock: %w: was it written by schema.WriteLock?", err)
	}
	if out.Lock != lockForm {
		return out, fmt.Errorf("read lock: its format is %d, this build reads %d: was it written by schema.WriteLock of another version?", out.Lock, lockForm)
	}
	if len(out.Subjects) == 0 {
		return out,
			errors.New("read lock: it has no subjects: was schema.WriteLock given the events of the program?")
	}
	return out, nil
}
