package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/store"
)

const writeAbout = `Writes one message into the outbox, from where every subscriber of its topic gets it: a compensation by hand. It is noted who wrote it,
and why. With --caused-by it belongs to the process of that message, which is looked for among what is kept; of one that is not kept any more only
the id is known, and that is said. Where the answer is lost, type it again with the --id that it had: consumers take it once.`

// A said is what skald outbox write is told.
type said struct {
	topic, typ, data, contentType, id, cause string
	key                                      typedKey // nil: it has none

	alone bool // its cause is not kept: it belongs to no process that is known
}

func outboxWriteCommand(out io.Writer) *cobra.Command {
	w, s := &wanted{}, &said{}
	c := &cobra.Command{Use: "write", Short: "Write one message by hand, for a reason", Long: writeAbout, Args: cobra.NoArgs}
	f := c.Flags()
	f.String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	f.StringVar(&w.schema, "schema", "", "where the tables are; PostgreSQL only (default: public)")
	f.StringVar(&s.topic, "topic", "", "where it goes")
	f.Var(&s.key, "key", "whose order it keeps, base64:… where that is no text; none is given: it keeps none")
	f.StringVar(&s.typ, "type", "", "what kind of event it is")
	f.StringVar(&s.data, "data", "", "the payload; @FILE: what is in that file, @-: standard input")
	f.StringVar(&s.contentType, "content-type", "application/json", "of the payload")
	f.StringVar(&s.id, "id", "", "its id (default: a new one)")
	f.StringVar(&s.cause, "caused-by", "", "the id of the message that it is written because of")
	f.StringVar(&w.consumer, "consumer", "", "with --caused-by: the consumer that keeps that")
	f.StringVar(&w.source, "source", "", "with --caused-by: its source")
	f.BoolVar(&w.asJSON, "json", false, "print one object and nothing else")
	f.BoolVar(&w.dry, "dry-run", false, "say what would be written, and write nothing")
	f.StringVar(&w.reason, "reason", "", "why; it is kept in skald_audit")
	f.StringVar(&w.by, "by", whoami(), "who; the same")
	c.RunE = func(c *cobra.Command, _ []string) error {
		a := &act{w: w, out: out, verb: "write"}
		switch {
		case s.topic == "" || s.typ == "":
			return &place.UsageError{What: "write wants a --topic and a --type"}
		case !c.Flags().Changed("data"):
			return &place.UsageError{What: "write wants --data, the payload"}
		}
		if err := a.reasoned(); err != nil {
			return err
		}
		payload := []byte(s.data)
		if name, file := strings.CutPrefix(s.data, "@"); file {
			var err error
			if payload, err = contents(name, c.InOrStdin()); err != nil {
				return err
			}
		}
		if s.contentType == "application/json" && !json.Valid(payload) {
			return &place.UsageError{What: "the payload is no JSON: mend it, or give its --content-type"}
		}
		return s.write(c, a, payload)
	}
	return c
}

// asIs is the codec of a payload that is there.
type asIs struct {
	skald.JSON
	contentType string
}

// Encode takes the bytes as they are.
func (a asIs) Encode(_ context.Context, m *skald.Message, v any) error {
	m.Data, m.ContentType = v.([]byte), a.contentType
	return nil
}

func (s *said) write(c *cobra.Command, a *act, payload []byte) error {
	k, end, err := a.w.open(c)
	if err != nil {
		return err
	}
	defer end()
	cause, id, err := s.because(c.Context(), a.w, k)
	if err != nil {
		return err
	}
	d := skald.Draft{Topic: s.topic, Type: s.typ, Value: payload, Key: s.key, Codec: asIs{contentType: s.contentType}}
	ctx, by := c.Context(), complete.Completer{}
	if s.cause != "" {
		ctx = skald.WithCause(ctx, cause)
	}
	if s.id != "" {
		by.NewID = func(time.Time) string { return s.id }
	}
	ms, err := by.Messages(ctx, []skald.Draft{d})
	if err != nil {
		return &place.UsageError{What: err.Error()}
	}
	m := &ms[0]
	if id.ID == "" {
		id.ID = m.ID
	}
	if !a.w.dry {
		audit := &store.Audit{Who: a.w.by, Why: a.w.reason, What: fmt.Sprintf("write %s %s to %s", m.Type, m.ID, m.Topic), Consumer: a.w.consumer, Identity: id}
		_, err := k.Apply(c.Context(), store.Effect{Rows: ms, Audit: audit})
		if limit := new(store.LimitError); errors.As(err, &limit) {
			return &place.UsageError{What: err.Error()}
		}
		if err != nil {
			return fmt.Errorf("outbox write: if it is not known whether %s is written, type it again with --id %s: %w", m.ID, m.ID, err)
		}
	}
	if a.w.asJSON {
		return json.NewEncoder(a.out).Encode(map[string]any{"what": "write", "id": m.ID, "topic": m.Topic, "type": m.Type, "key": m.Key,
			"causation_id": m.CausationID, "correlation_id": m.CorrelationID, "cause_kept": s.cause != "" && !s.alone, "bytes": len(m.Data), "dry_run": a.w.dry})
	}
	word := "is written"
	if a.w.dry {
		word = "would be written"
	}
	if s.alone {
		word += ", the beginning of a process of its own, as " + s.cause + " is not kept here"
	}
	_, err = fmt.Fprintf(a.out, "%s %s: %s to %s, %d bytes\n", m.ID, word, m.Type, m.Topic, len(m.Data))
	return err
}

// because is the message that is written because of, and what it is kept as. One that is not kept is its id and no more.
func (s *said) because(ctx context.Context, w *wanted, k keeper) (cause skald.Message, id store.Identity, err error) {
	if s.cause == "" {
		return cause, id, nil
	}
	cause.ID = s.cause
	n, consumer := 0, w.consumer
	both := *w
	both.id = s.cause
	err = both.anyKept(ctx, k, func(p store.Parked) (bool, error) {
		if n == 0 || p.Message.Source != cause.Source { // else it is the same one, kept for another consumer
			n++
		}
		cause, id = p.Message, p.Identity
		consumer = p.Consumer
		return n < 2, nil
	})
	w.consumer, s.alone = consumer, n == 0
	if err == nil && n > 1 {
		err = &place.UsageError{What: fmt.Sprintf("several kept messages have the id %s: name one by --consumer and --source", s.cause)}
	}
	return cause, id, err
}
