package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/internal/held"
	"github.com/skald-go/skald/store"
)

// A letter is a dead letter as a line of a file: its names are stable. Bytes are base64; a text that is not UTF-8 is {"bytes": base64}.
type letter struct {
	Format      int             `json:"format"` // 1
	Consumer    held.Text       `json:"consumer"`
	Source      held.Text       `json:"source"`
	ID          held.Text       `json:"id"`
	Message     json.RawMessage `json:"message"`
	Lane        held.Text       `json:"lane"`
	Position    int64           `json:"position"`
	Fault       held.Text       `json:"fault,omitempty"`
	Attempts    int             `json:"attempts"`
	Since       time.Time       `json:"since"`
	First       *failure        `json:"first"`
	Last        *failure        `json:"last"`
	DeadAt      time.Time       `json:"dead_at"`
	Kind        held.Text       `json:"kind"`
	Fingerprint held.Text       `json:"fingerprint"`
	Stack       held.Text       `json:"stack,omitempty"`
	Version     held.Text       `json:"version,omitempty"`
	HoldsKey    bool            `json:"holds_key"`
	Call        json.RawMessage `json:"call,omitempty"` // to the outside, that it is at
}

type failure struct {
	At    time.Time `json:"at"`
	Error held.Text `json:"error"`
	Host  held.Text `json:"host"`
}

const letterFormat = 1

func letterOf(p *store.Parked) (*letter, error) {
	message, err := held.Encode(&p.Message)
	if err != nil {
		return nil, err
	}
	failed := func(f store.Failure) *failure {
		if f == (store.Failure{}) {
			return nil
		}
		return &failure{f.At, held.Text(f.Why), held.Text(f.Host)}
	}
	call, err := held.EncodeCall(p.Call)
	if err != nil {
		return nil, err
	}
	l := &letter{Format: letterFormat, Consumer: held.Text(p.Consumer), Source: held.Text(p.Source), ID: held.Text(p.ID), Message: json.RawMessage(message),
		Lane: held.Text(p.Lane), Position: p.Position, Fault: held.Text(p.Fault), Attempts: p.Attempts, Since: p.Since, First: failed(p.First),
		Last: failed(p.Last), DeadAt: p.Dead.At, Kind: held.Text(p.Dead.Kind), Fingerprint: held.Text(p.Dead.Fingerprint),
		Stack: held.Text(p.Dead.Stack), Version: held.Text(p.Dead.Version), HoldsKey: p.Dead.Holds}
	if call != nil {
		l.Call = json.RawMessage(*call)
	}
	return l, nil
}

// readLetter reads a line.
func readLetter(line []byte) (*store.Parked, error) {
	var l letter
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, err
	}
	if l.Format != letterFormat || l.Consumer == "" || l.ID == "" || l.DeadAt.IsZero() {
		return nil, fmt.Errorf("it is no dead letter of format %d: consumer, id or dead_at is missing", letterFormat)
	}
	m, err := held.Decode(string(l.Message))
	if err != nil {
		return nil, err
	}
	p := &store.Parked{Consumer: string(l.Consumer), Identity: store.Identity{Source: string(l.Source), ID: string(l.ID)}, Message: m, Lane: string(l.Lane),
		Position: l.Position, Fault: string(l.Fault), Attempts: l.Attempts, Dead: &store.Death{At: l.DeadAt, Kind: string(l.Kind),
			Fingerprint: string(l.Fingerprint), Stack: string(l.Stack), Version: string(l.Version), Holds: l.HoldsKey}}
	if call := string(l.Call); call != "" && call != "null" {
		if p.Call, err = held.DecodeCall(&call); err != nil {
			return nil, err
		}
	}
	if f := l.First; f != nil {
		p.First = store.Failure{At: f.At, Why: string(f.Error), Host: string(f.Host)}
	}
	if f := l.Last; f != nil {
		p.Last = store.Failure{At: f.At, Why: string(f.Error), Host: string(f.Host)}
	}
	return p, nil
}

const exportAbout = `Prints dead letters as JSON lines, byte for byte: keys, payloads, headers and diagnostics. They stay where they are. skald dead
import reads them again, here or elsewhere. The lines hold payloads: keep the file as you keep the database.`

func exportCommand(out io.Writer) *cobra.Command {
	w := &wanted{dead: true}
	c := &cobra.Command{Use: "export", Short: "Print dead letters as JSON lines, for skald dead import", Long: exportAbout, Args: cobra.NoArgs}
	w.flags(c, false)
	c.Flags().Lookup("limit").Usage = "at most so many; 0: all"
	c.Flags().Lookup("limit").DefValue, w.limit = "0", 0
	c.RunE = func(c *cobra.Command, _ []string) error {
		k, end, err := w.open(c)
		if err != nil {
			return err
		}
		defer end()
		n, lines := 0, bufio.NewWriter(out)
		err = w.each(c.Context(), k, false, func(p store.Parked) (bool, error) {
			n++
			l, err := letterOf(&p)
			if err == nil {
				err = json.NewEncoder(lines).Encode(l)
			}
			return n != w.limit, err
		})
		return errors.Join(err, lines.Flush())
	}
	return c
}

const importAbout = `Reads what skald dead export printed, and keeps each line as a dead letter of its consumer, in the order of the file. What the
consumer has finished, or keeps already, is named and left as it is: a repeat of an import changes nothing. So is what is older than the
consumer's marks are kept, as nobody knows whether it was taken: --too-old imports that, too. And so is one at a call to the outside, of
which nobody would know here: redrive it where it came from. FILE may be - for standard input.`

func importCommand(out, errs io.Writer) *cobra.Command {
	w, tooOld := &wanted{dead: true}, false
	c := &cobra.Command{Use: "import FILE", Short: "Keep what skald dead export printed as dead letters, here or elsewhere", Long: importAbout, Args: cobra.ExactArgs(1)}
	f := c.Flags()
	f.String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	f.StringVar(&w.schema, "schema", "", "where the tables are; PostgreSQL only (default: public)")
	f.BoolVar(&w.asJSON, "json", false, "print one object on each line and nothing else")
	f.BoolVar(&tooOld, "too-old", false, "what is older than marks are kept, too")
	w.changeFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		a := &act{w: w, out: out, errs: errs, verb: "import"}
		if err := a.reasoned(); err != nil {
			return err
		}
		file, err := spooled(args[0], c.InOrStdin())
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was only read
		return importFrom(c, a, file, tooOld)
	}
	return c
}

// spooled is the file of that name; standard input is kept in one, which has no name any more.
func spooled(name string, in io.Reader) (*os.File, error) {
	if name != "-" {
		file, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			err = &place.NoneError{What: "there is no file " + name}
		}
		return file, err
	}
	file, err := os.CreateTemp("", "skald-import-")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(file.Name()); err == nil {
		_, err = io.Copy(file, in)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("keep standard input in a file: %w", err)
	}
	return file, nil
}

// letters reads all lines of file.
func letters(file *os.File, f func(p *store.Parked) error) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewReader(file)
	for n := 1; ; n++ {
		line, end := lines.ReadBytes('\n')
		if end != nil && end != io.EOF {
			return end
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			p, err := readLetter(line)
			if err != nil {
				return &place.UsageError{What: fmt.Sprintf("line %d of the file: %v", n, err)}
			}
			if err := f(p); err != nil {
				return fmt.Errorf("line %d of the file: %w", n, err)
			}
		}
		if end == io.EOF {
			return nil
		}
	}
}

// importFrom reads the file twice: a line that is no dead letter is found before anything is changed.
func importFrom(c *cobra.Command, a *act, file *os.File, tooOld bool) error {
	total := 0
	if err := letters(file, func(*store.Parked) error { total++; return nil }); err != nil {
		return err
	}
	if total == 0 {
		return &place.NoneError{What: "there is no dead letter in the file"}
	}
	k, end, err := a.w.open(c)
	if err != nil {
		return err
	}
	defer end()
	if err := a.ready(c.Context(), total); err != nil {
		return err
	}
	did := 0
	err = letters(file, func(p *store.Parked) error {
		if p.Call != nil {
			return tellLeft(a, p, "at a call")
		}
		stands, err := a.importOne(c.Context(), k, p, tooOld)
		switch {
		case err != nil:
			return fmt.Errorf("import %s, behind %d others: %w", p.ID, did, err)
		case stands == store.Fresh:
			did++
			return nil
		}
		return tellLeft(a, p, whyLeft(stands))
	})
	if err != nil {
		return err
	}
	return told(a.out, a.w, a.verb, did, total)
}

// importOne keeps p, unless it stands otherwise than Fresh.
func (a *act) importOne(ctx context.Context, k keeper, p *store.Parked, tooOld bool) (store.Outcome, error) {
	e := store.Effect{Keep: &store.Keep{Parked: *p},
		Audit: &store.Audit{Who: a.w.by, Why: a.w.reason, What: a.verb, Consumer: p.Consumer, Identity: p.Identity}}
	m := store.Mark{Consumer: p.Consumer, Identity: p.Identity, As: store.Rejected, Turn: store.Arriving, Key: p.Message.Key, Held: tooOld}
	instead := []store.Effect{e}
	if a.w.dry {
		instead = nil
	}
	switch d := k.(type) {
	case store.Driver[pgx.Tx]:
		return keepInstead(ctx, d, m, instead)
	case store.Driver[*sql.Tx]:
		return keepInstead(ctx, d, m, instead)
	}
	return 0, fmt.Errorf("%T takes in nothing", k)
}

// keepInstead asks how a message stands as its consumer would, and keeps it if it is fresh: what is in hand is waited for.
func keepInstead[TTx any](ctx context.Context, d store.Driver[TTx], m store.Mark, instead []store.Effect) (store.Outcome, error) {
	unit, err := d.Begin(ctx, store.Intake{Marks: []store.Mark{m}})
	if err != nil {
		return 0, err
	}
	stands := unit.Found().Marks[0].Outcome
	if stands == store.Behind {
		stands = store.Fresh // behind those of its key
	}
	if stands != store.Fresh {
		instead = nil
	}
	stood, err := unit.Rollback(ctx, instead...)
	switch {
	case len(instead) == 0:
		return stands, nil // nothing was written: a lost connection changes nothing
	case err != nil:
		return 0, err
	case !stood[0]:
		return store.Done, nil // finished, or kept by a rival, in between
	}
	return stands, nil
}

func whyLeft(stands store.Outcome) string {
	switch stands {
	case store.Waiting, store.Dead:
		return "kept already"
	case store.TooOld:
		return "too old"
	}
	return "finished"
}

// tellLeft names a letter that is not imported.
func tellLeft(a *act, p *store.Parked, why string) error {
	if a.w.asJSON {
		return json.NewEncoder(a.out).Encode(map[string]string{"left": why, "consumer": p.Consumer, "source": p.Source, "id": p.ID})
	}
	_, err := fmt.Fprintf(a.out, "left\t%s\t%s\t%s\n", why, p.Consumer, p.ID)
	return err
}
