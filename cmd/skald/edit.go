package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

const editAbout = `Puts a new message with the payload of FILE in the place of a dead letter, for the consumer that failed and nobody else: with an id
of its own, caused by the dead letter, with its key, type and headers. The dead letter is dropped, with that for a reason, in the
same transaction; a repeat of it is not taken. The consumer takes the new message within seconds. One that is at a call to
the outside is not edited: what became of the call would be forgotten.`

func editCommand(out io.Writer) *cobra.Command {
	w := &wanted{dead: true}
	var data string
	c := &cobra.Command{Use: "edit", Short: "Put a message with another payload in the place of a dead letter", Long: editAbout, Args: cobra.NoArgs}
	w.flags(c, true)
	c.Flags().StringVar(&data, "data", "", "the file with the new payload; - is standard input")
	c.RunE = func(c *cobra.Command, _ []string) error {
		a := &act{w: w, out: out, verb: "edit"}
		switch {
		case w.id == "":
			return &place.UsageError{What: "edit wants the --id of one dead letter"}
		case data == "":
			return &place.UsageError{What: "edit wants --data FILE, the new payload"}
		}
		if err := a.reasoned(); err != nil {
			return err
		}
		payload, err := contents(data, c.InOrStdin())
		if err != nil {
			return err
		}
		return edit(c, a, payload)
	}
	return c
}

// contents is what is in a file; - is standard input.
func contents(name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(in)
	}
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		err = &place.NoneError{What: "there is no file " + name}
	}
	return b, err
}

func edit(c *cobra.Command, a *act, payload []byte) error {
	k, end, err := a.w.open(c)
	if err != nil {
		return err
	}
	defer end()
	all, err := a.meantWhole(c.Context(), k)
	if err != nil {
		return err
	}
	if len(all) > 1 {
		return &place.UsageError{What: fmt.Sprintf("%d dead letters have the id %s: name one by --consumer and --source", len(all), a.w.id)}
	}
	old := &all[0]
	instead, err := edited(old, payload)
	if err != nil {
		return err
	}
	if !a.w.dry {
		a.effect = func(ctx context.Context, k keeper, p *store.Parked) (e store.Effect, err error) {
			e.Keep = &store.Keep{Parked: *instead, Instead: &p.Identity}
			e.Mark, err = givenUp(ctx, k, p, "edited: "+a.w.reason+"; instead of it: "+instead.ID)
			return e, err
		}
		stands, err := a.change(c.Context(), k, old, "")
		if err == nil && !stands {
			err = &place.NoneError{What: "the dead letter is not there any more: somebody else was first"}
		}
		if err != nil {
			return fmt.Errorf("edit %s: %w", old.ID, err)
		}
	}
	if a.w.asJSON {
		return json.NewEncoder(a.out).Encode(map[string]any{"what": "edit", "id": instead.ID, "instead_of": old.ID, "consumer": old.Consumer,
			"bytes": len(payload), "dry_run": a.w.dry})
	}
	word := "is parked"
	if a.w.dry {
		word = "would be parked"
	}
	_, err = fmt.Fprintf(a.out, "%s %s in the place of %s, with %d bytes instead of %d\n", instead.ID, word, old.ID, len(payload), len(old.Message.Data))
	return err
}

// meantWhole is meant with payloads.
func (a *act) meantWhole(ctx context.Context, k keeper) (all []store.Parked, err error) {
	err = a.w.each(ctx, k, false, func(p store.Parked) (bool, error) { all = append(all, p); return len(all) < 2, nil })
	if err == nil && len(all) == 0 {
		err = &place.NoneError{What: "no kept message is meant by these flags"}
	}
	return all, err
}

// edited is the message that takes the place of old.
func edited(old *store.Parked, payload []byte) (*store.Parked, error) {
	if old.Fault != "" {
		return nil, &place.UsageError{What: "its envelope cannot be read (" + old.Fault + "): write a message of its own, with skald outbox write"}
	}
	if old.Call != nil {
		return nil, &place.UsageError{What: "it is at a call to the outside, under key " + old.Call.Key + ": a new message would not know of that. Look there what became of it; " +
			"then redrive it, or drop it with what you found (--call) and say by hand what follows"}
	}
	m := old.Message
	m.Time = time.Now().UTC().Truncate(time.Microsecond)
	m.ID, m.CausationID = uuid7.New(m.Time), old.Message.ID
	m.CorrelationID = cmp.Or(old.Message.CorrelationID, old.Message.ID)
	m.Data, m.Sequence = payload, ""
	if len(payload) > complete.MaxData {
		return nil, &place.UsageError{What: fmt.Sprintf("the payload is %d bytes, at most %d are allowed", len(payload), complete.MaxData)}
	}
	return &store.Parked{Consumer: old.Consumer, Identity: store.Identity{Source: old.Source, ID: m.ID}, Message: m, Lane: old.Lane, Position: old.Position}, nil
}
