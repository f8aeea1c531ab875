package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

var _ store.Examiner = (*Store)(nil)

// Bytes of an entry with its indexes, and synchronous as SQLite numbers it.
const (
	rowBytes, markBytes = 620, 190
	synchronousFull     = 2
)

// Examine looks at the file's settings and at its size.
func (s *Store) Examine(ctx context.Context, e store.Exam) ([]skald.Finding, error) {
	p, err := s.prepare(ctx)
	if err != nil {
		return nil, failed("examine", err)
	}
	var journal string
	var synchronous int
	var size, looked int64
	if err := p.stmts["Examine"].QueryRowContext(ctx).Scan(&journal, &synchronous, &size, &looked); err != nil {
		return nil, failed("examine", err)
	}
	keep, err := s.Keeps(ctx)
	if err != nil {
		return nil, err
	}
	var out []skald.Finding
	say := func(name string, ok bool, worst skald.Grade, saw, remedy string) {
		if ok {
			worst, remedy = skald.Fine, ""
		}
		out = append(out, skald.Finding{Name: name, Grade: worst, Saw: saw, Remedy: remedy})
	}
	say("journal_mode", journal == "wal", skald.Failed, journal, "open the file with sqlitestore.Open, or run PRAGMA journal_mode = wal: readers and the writer stop each other otherwise")
	say("synchronous", synchronous >= synchronousFull, skald.Failed, fmt.Sprint(synchronous), "open the file with sqlitestore.Open, which sets synchronous to FULL: what is committed does not outlive the machine otherwise")
	const remedy = "start a relay, set inbox.Options.Keep in one service, or run: skald maintain"
	ago := time.Duration(looked) * time.Second
	switch {
	case looked < 0:
		say("retention", false, skald.Doubtful, "nobody has seen to it yet", remedy)
	default:
		say("retention", ago <= time.Hour, skald.Failed, fmt.Sprintf("rows are kept %v, marks %v; it last looked %v ago", keep.Outbox, keep.Marks, ago), remedy)
	}
	if e.Connections > 1 {
		say("connections", true, "", "one transaction writes at a time, however many there are", "")
	}
	if e.Rate > 0 {
		gib := func(bytes float64, keep time.Duration) float64 { return bytes * e.Rate * keep.Seconds() / (1 << 30) }
		say("disk", true, "", fmt.Sprintf("at %.0f messages/s of 256 bytes the outbox takes %.1f GiB and the marks of each consumer %.1f GiB; the file has %.1f GiB now",
			e.Rate, gib(rowBytes, keep.Outbox), gib(markBytes, keep.Marks), float64(size)/(1<<30)), "")
	}
	return out, nil
}
