package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Inspector checks whether a payload can be read: with its content type, with its writer's schema, and with
// the schema that a program declares. It is not safe for concurrent use.
type Inspector struct {
	Kept     store.PayloadSchemas // the stored schemas; nil skips the check with the writer's schema
	Registry string               // Config.Name of the registry
	Lock     Lock                 // the declared schemas; the zero value skips the check with them
	Formats  []Format

	schemas map[ID]*Schema // a nil entry means that the schema is not stored
	refused map[pairing]string
}

// pairing is the id of a writer's schema, and the subject that reads it.
type pairing struct {
	id      ID
	subject string
}

// Inspection is the result for one payload.
type Inspection struct {
	ID    string // the id of the writer's schema; "" if the message has none
	Place Place
	Wrong string // why the payload cannot be read, without its values; "" if no check fails
}

// Inspect checks a message. It returns an error if Kept or the lock fails.
func (i *Inspector) Inspect(ctx context.Context, m skald.Message) (out Inspection, err error) {
	l, err := locate(m, false)
	if err != nil {
		return Inspection{ID: "?", Wrong: err.Error()}, nil
	}
	declared, err := i.declared(m)
	if err != nil {
		return out, err
	}
	if !l.found {
		return Inspection{Wrong: plainly(i.unnamed(m, declared))}, nil
	}
	out.ID = l.id.String()
	if len(l.data) < len(m.Data) {
		out.Place = InPrefix
	}
	writer, err := i.schema(ctx, l.id)
	if err != nil || writer == nil {
		return out, err
	}
	if out.Wrong = plainly(i.read(*writer, m)); out.Wrong == "" && declared != nil {
		out.Wrong, err = i.refusal(declared, *writer, l.id)
	}
	return out, err
}

func plainly(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// declared returns the declared schema of the message's event, or nil.
func (i *Inspector) declared(m skald.Message) (*Locked, error) {
	at := slices.IndexFunc(i.Lock.Subjects,
		func(s Locked) bool { return slices.Contains(s.Events, m.Topic+" "+m.Type) })
	if at < 0 {
		return nil, nil
	}
	_, err := i.Lock.Subjects[at].Whole()
	return &i.Lock.Subjects[at], err
}

// unnamed returns the reason why a payload without a schema id cannot be read, or nil. It does not check
// Protobuf, because nearly all bytes are valid Protobuf.
func (i *Inspector) unnamed(m skald.Message, declared *Locked) error {
	if isJSON(m.ContentType) && !json.Valid(m.Data) {
		return fmt.Errorf("its content type is %.100s, and it is not JSON", m.ContentType)
	}
	switch {
	case declared == nil:
		return nil
	case declared.Format == Avro:
		return errors.New(
			"the program declares it in Avro, which cannot be read without a schema id")
	}
	s, err := declared.Whole()
	if err != nil {
		return err
	}
	if v, ok := i.format(s.Format).(Verifier); ok {
		return v.Verify(s, m.Data)
	}
	return nil
}

func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// format returns the Format with that name, or nil.
func (i *Inspector) format(name string) Format {
	at := slices.IndexFunc(i.Formats, func(f Format) bool { return f.Name() == name })
	if at < 0 {
		return nil
	}
	return i.Formats[at]
}

// schema returns a stored schema, or nil.
func (i *Inspector) schema(ctx context.Context, id ID) (*Schema, error) {
	if s, known := i.schemas[id]; known || i.Kept == nil {
		return s, nil
	}
	text, err := i.Kept.PayloadSchema(ctx, i.Registry, id.String())
	if err != nil {
		return nil, err
	}
	one, there, err := defined(id, text)
	if err != nil {
		return nil, err
	}
	var s *Schema
	if there {
		s = &one
	}
	if i.schemas == nil {
		i.schemas = map[ID]*Schema{}
	}
	i.schemas[id] = s
	return s, nil
}

// read returns the reason why a payload does not match its writer's schema, or nil.
func (i *Inspector) read(writer Schema, m skald.Message) error {
	f := i.format(writer.Format)
	if f == nil {
		return nil
	}
	l, err := locate(m, writer.Format == Protobuf)
	if err != nil {
		return err
	}
	if v, ok := f.(Verifier); ok {
		return v.Verify(writer, l.data)
	}
	var index []int
	if writer.Format == Protobuf {
		if index, err = readIndex(l.index); err != nil {
			return err
		}
	}
	_, err = f.Readable(writer, index, l.data)
	return err
}

// refusal returns the reason why the declared schema cannot read payloads of writer, or "".
func (i *Inspector) refusal(declared *Locked, writer Schema, id ID) (reason string, err error) {
	both := pairing{id, declared.Subject}
	if reason, known := i.refused[both]; known {
		return reason, nil
	}
	reader, err := declared.Whole()
	if err != nil {
		return "", err
	}
	if f := i.format(reader.Format); reader.Format != writer.Format {
		reason = fmt.Sprintf("schema %v is in %s, and the program declares it in %s", id, writer.Format,
			reader.Format)
	} else if f != nil {
		problems, err := f.Problems(reader, writer)
		if limit := new(LimitError); errors.As(err, &limit) {
			problems, err = []Problem{limit.problem()}, nil
		}
		if err != nil {
			return "", fmt.Errorf("compare schema %v with %s: %w", id, declared.Subject, err)
		}
		if len(problems) > 0 {
			reason = fmt.Sprintf("the schema that the program declares does not read schema %v: %v", id,
				problems[0])
		}
	}
	if i.refused == nil {
		i.refused = map[pairing]string{}
	}
	i.refused[both] = reason
	return reason, nil
}
