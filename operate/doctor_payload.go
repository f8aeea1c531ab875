package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Payload is the result of Doctor.Inspect for one payload.
type Payload struct {
	Schema string // the ID of the schema in the payload; empty if the payload has none
	// DecodeError is the error of the codec for the payload's content type. It is empty if the payload can be
	// decoded, or if it was not checked.
	DecodeError string
}

const (
	maxInspected = 50 // limits the inspected payloads of an event: decoding one takes up to a millisecond
	maxEvents    = 10 // limits the events that get a finding
	maxKinds     = 5  // limits the content types in a finding
)

// event counts the payloads of one topic and type.
type event struct {
	name              string
	rows              int
	kinds             map[string]int // by content type
	named, plain      int            // payloads with and without a schema
	inspected, broken int
	first             string // the first payload that cannot be decoded, and the reason
}

// payloads adds a finding for each event type if its payloads have several content types, if only some of
// them have a schema, or if one cannot be decoded.
func (d *Doctor) payloads(ctx context.Context, s DoctorStore) error {
	const about = "store"
	l, err := s.List(ctx, store.List{Payloads: true})
	var right *store.RightError
	switch {
	case errors.As(err, &right): // the user of an app may write the outbox, but not read it
		d.Add(about, "payloads", skald.Fine, "this user may not read the outbox", "")
		return nil
	case err != nil:
		return err
	}
	events := map[[2]string]*event{}
	for i := range l.Payloads {
		m := &l.Payloads[i].Message
		e := events[[2]string{m.Topic, m.Type}]
		if e == nil {
			e = &event{name: m.Topic + " " + m.Type, kinds: map[string]int{}}
			events[[2]string{m.Topic, m.Type}] = e
		}
		if err := e.count(ctx, &l.Payloads[i], d.Inspect); err != nil {
			return err
		}
	}
	var odd []*event
	for _, e := range events {
		if e.broken > 0 || e.mixed() {
			odd = append(odd, e)
		}
	}
	if len(odd) == 0 {
		d.Add(about, "payloads", skald.Fine,
			fmt.Sprintf("read %d rows of the outbox: each event has payloads of one kind",
				len(l.Payloads)), "")
		return nil
	}
	slices.SortFunc(odd, func(a, b *event) int { // payloads that cannot be decoded first
		return cmp.Or(cmp.Compare(min(b.broken, 1), min(a.broken, 1)), strings.Compare(a.name, b.name))
	})
	for _, e := range odd[:min(len(odd), maxEvents)] {
		d.Add(about, "payloads of "+e.name, e.grade(), e.saw(), e.remedy())
	}
	if more := len(odd) - maxEvents; more > 0 {
		d.Add(about, "payloads", odd[maxEvents].grade(), fmt.Sprintf("%d further events have the same fault",
			more),
			"repair the named events, and run doctor again")
	}
	return nil
}

func (e *event) count(ctx context.Context, p *store.Payload,
	inspect func(context.Context, skald.Message) (Payload, error)) error {
	e.rows++
	media, _, _ := strings.Cut(p.Message.ContentType, ";") // ignore parameters such as charset
	e.kinds[strings.ToLower(strings.TrimSpace(media))]++
	if inspect == nil || !p.Read || e.inspected == maxInspected {
		return nil
	}
	e.inspected++
	saw, err := inspect(ctx, p.Message)
	if err != nil {
		return err
	}
	if saw.Schema == "" {
		e.plain++
	} else {
		e.named++
	}
	if saw.DecodeError != "" {
		if e.broken++; e.broken == 1 {
			e.first = fmt.Sprintf("%.64s: %.300s", p.Message.ID, saw.DecodeError)
		}
	}
	return nil
}

func (e *event) mixed() bool { return len(e.kinds) > 1 || e.named > 0 && e.plain > 0 }

func (e *event) grade() skald.Grade {
	if e.broken > 0 {
		return skald.Failed
	}
	return skald.Doubtful
}

func (e *event) saw() string {
	var parts []string
	for i, kind := range slices.Sorted(maps.Keys(e.kinds)) {
		if i == maxKinds {
			parts = append(parts, "others")
			break
		}
		parts = append(parts, fmt.Sprintf("%d %.100s", e.kinds[kind], kind))
	}
	saw := fmt.Sprintf("of %d rows: %s", e.rows, strings.Join(parts, ", "))
	if e.named > 0 && e.plain > 0 {
		saw += fmt.Sprintf("; of the newest %d rows, %d name a schema and %d do not", e.inspected,
			e.named, e.plain)
	}
	if e.broken > 0 {
		saw += fmt.Sprintf("; %d of the newest %d cannot be read, first %s", e.broken, e.inspected, e.first)
	}
	return saw
}

func (e *event) remedy() string {
	if e.broken > 0 {
		return "find its writer by source and id in skald_outbox, and repair it: consumers park such messages or make dead letters of them; docs/schemas.md: Failures"
	}
	return "during a rollout, run doctor again when it has ended; otherwise find the writers by source in skald_outbox, and give them one codec: docs/schemas.md"
}
