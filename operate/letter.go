package operate

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

// letterFormat is the version of the export format of dead letters.
const letterFormat = 1

// letter is a dead letter as a line of a file. The JSON field names are stable. Bytes are base64. A text that
// is not UTF-8 is an object: {"bytes": base64}.
type letter struct {
	Format      int             `json:"format"` // letterFormat
	Consumer    column.Text     `json:"consumer"`
	Source      column.Text     `json:"source"`
	ID          column.Text     `json:"id"`
	Message     json.RawMessage `json:"message"`
	Partition   column.Text     `json:"partition"`
	Position    int64           `json:"position"`
	Fault       column.Text     `json:"fault,omitempty"`
	Attempts    int             `json:"attempts"`
	Since       time.Time       `json:"since"`
	First       *attempt        `json:"first"`
	Last        *attempt        `json:"last"`
	Failures    []*attempt      `json:"failures,omitempty"`
	DeadAt      time.Time       `json:"dead_at"`
	Kind        column.Text     `json:"kind"`
	Fingerprint column.Text     `json:"fingerprint"`
	Stack       column.Text     `json:"stack,omitempty"`
	Version     column.Text     `json:"version,omitempty"`
	BlocksKey   bool            `json:"blocks_key"`
	Call        json.RawMessage `json:"call,omitempty"` // the external call in progress
}

type attempt struct {
	At    time.Time   `json:"at"`
	Error column.Text `json:"error"`
	Host  column.Text `json:"host"`
}

func (f *attempt) failure() store.Failure {
	if f == nil {
		return store.Failure{}
	}
	return store.Failure{At: f.At, Why: string(f.Error), Host: string(f.Host)}
}

func failureOf(f store.Failure) *attempt {
	if f == (store.Failure{}) {
		return nil
	}
	return &attempt{f.At, column.Text(f.Why), column.Text(f.Host)}
}

// WriteLetter writes the dead letter p as one line of JSON. p must include the payload. ReadLetters reads
// such lines, and restores each byte.
func WriteLetter(out io.Writer, p *store.Parked) error {
	message, err := column.EncodeMessage(&p.Message)
	if err != nil {
		return err
	}
	call, err := column.EncodeCall(p.Call)
	if err != nil {
		return err
	}
	died, ok := column.Time(p.Dead.At)
	if !ok { // an earlier version of Skald accepted years that JSON cannot represent
		died = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	l := letter{Format: letterFormat, Consumer: column.Text(p.Consumer), Source: column.Text(p.Source),
		ID: column.Text(p.ID), Message: json.RawMessage(message),
		Partition: column.Text(p.Partition), Position: p.Position, Fault: column.Text(p.Fault),
		Attempts: p.Attempts, Since: p.Since, First: failureOf(p.First),
		Last: failureOf(p.Last), DeadAt: died, Kind: column.Text(p.Dead.Kind),
		Fingerprint: column.Text(p.Dead.Fingerprint),
		Stack:       column.Text(p.Dead.Stack), Version: column.Text(p.Dead.Version), BlocksKey: p.Dead.BlocksKey}
	for _, f := range p.Failures {
		l.Failures = append(l.Failures, failureOf(f))
	}
	if call != nil {
		l.Call = json.RawMessage(*call)
	}
	text, err := json.Marshal(&l)
	if err != nil {
		return err
	}
	_, err = out.Write(append(shortlog.VisibleJSON(text), '\n'))
	return err
}

// ReadLetters reads dead letters as WriteLetter writes them. At a line that is no dead letter it yields a
// *UsageError with the line number, and stops.
func ReadLetters(in io.Reader) iter.Seq2[*store.Parked, error] {
	return func(yield func(*store.Parked, error) bool) {
		lines := bufio.NewReader(in)
		for n := 1; ; n++ {
			line, end := readLine(lines)
			if end != nil && end != io.EOF {
				yield(nil, fmt.Errorf("line %d of the file: %w", n, end))
				return
			}
			if line = bytes.TrimSpace(line); len(line) > 0 {
				p, err := readLetter(line)
				if err != nil {
					err = &UsageError{Reason: fmt.Sprintf("line %d of the file: %v", n, err)}
				}
				if !yield(p, err) || err != nil {
					return
				}
			}
			if end == io.EOF {
				return
			}
		}
	}
}

// mostLetter is the maximum size of a line with a dead letter, in bytes.
const mostLetter = 64 << 20

// readLine reads up to and with the next line break. At the end of in it returns io.EOF.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > mostLetter {
			return nil, &UsageError{Reason: fmt.Sprintf("it has more than %d bytes: give a file of dead export",
				mostLetter)}
		}
	}
}

func readLetter(line []byte) (*store.Parked, error) {
	var l letter
	if err := cmp.Or(fingerprint.CheckJSON(line), json.Unmarshal(line, &l)); err != nil {
		return nil, err
	}
	if l.Format != letterFormat || l.Consumer == "" || l.ID == "" || l.DeadAt.IsZero() {
		return nil, fmt.Errorf("it is no dead letter of format %d: consumer, id or dead_at is missing",
			letterFormat)
	}
	times := map[string]*time.Time{"dead_at": &l.DeadAt}
	if l.First != nil {
		times["first.at"] = &l.First.At
	}
	if l.Last != nil {
		times["last.at"] = &l.Last.At
	}
	for i, f := range l.Failures {
		times[fmt.Sprintf("failures[%d].at", i)] = &f.At
	}
	for name, t := range times {
		at, ok := column.Time(*t)
		if !ok {
			return nil, fmt.Errorf("the year of its %s is not between 1 and 9999 in UTC: correct the line",
				name)
		}
		*t = at
	}
	m, err := column.DecodeMessage(string(l.Message))
	if err != nil {
		return nil, err
	}
	p := &store.Parked{Consumer: string(l.Consumer), Identity: store.Identity{Source: string(l.Source),
		ID: string(l.ID)}, Message: m, Partition: string(l.Partition),
		Position: l.Position, Fault: string(l.Fault), Attempts: l.Attempts, First: l.First.failure(),
		Last: l.Last.failure(),
		Dead: &store.Death{At: l.DeadAt, Kind: string(l.Kind), Fingerprint: string(l.Fingerprint),
			Stack: string(l.Stack), Version: string(l.Version), BlocksKey: l.BlocksKey}}
	for _, f := range l.Failures {
		p.Failures = append(p.Failures, f.failure())
	}
	if call := string(l.Call); call != "" && call != "null" {
		p.Call, err = column.DecodeCall(&call)
	}
	return p, err
}
