package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/diskfree"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

const (
	rowBytes, markBytes = 620, 190 // average bytes of an outbox row and of a mark, with indexes
	synchronousFull     = 2        // the value of PRAGMA synchronous for FULL
)

// Examine checks the settings of the file, its retention and its size. If e.Server is true, it only checks
// the disk.
func (d *doctor) Examine(ctx context.Context, e store.Exam) ([]skald.Finding, error) {
	if e.Server {
		return d.examineServer(ctx)
	}
	p, err := d.run.Prepare(ctx)
	if err != nil {
		return nil, sqlexec.Failed("examine", err)
	}
	var journal, file string
	var synchronous int
	var size, looked int64
	if err := p.Row(ctx, "Examine").Scan(&journal, &synchronous, &size, &file,
		&looked); err != nil {
		return nil, sqlexec.Failed("examine", err)
	}
	keep, err := d.steward.Keeps(ctx)
	if err != nil {
		return nil, err
	}
	var out []skald.Finding
	say := func(name string, ok bool, worst skald.Grade, saw, remedy string) {
		if ok {
			worst, remedy = skald.Fine, ""
		}
		out = append(out, skald.Finding{Name: name, Grade: worst, Observed: saw, Remedy: remedy})
	}
	say("journal_mode", journal == "wal", skald.Failed, journal,
		"open the file with sqlitestore.Open, or run PRAGMA journal_mode = wal: otherwise readers and the writer block each other")
	say("synchronous", synchronous >= synchronousFull, skald.Failed, fmt.Sprint(synchronous),
		"open the file with sqlitestore.Open, which sets synchronous to FULL: otherwise commits are lost if the machine crashes")
	const remedy = "start a relay, set inbox.Options.Retention.Keep in one service, or run: skald maintain"
	ago := time.Duration(looked) * time.Second
	switch {
	case looked == -2: // the file has no rows and no marks
		say("retention", true, "", "it has not run yet, and there is nothing to delete", "")
	case looked < 0:
		say("retention", false, skald.Doubtful, "it never ran", remedy)
	default:
		say("retention", ago <= time.Hour, skald.Failed,
			fmt.Sprintf("rows are kept %s, marks %s; it last ran %v ago", retention.Spell(keep.Outbox),
				retention.Spell(keep.Marks), ago),
			remedy)
	}
	if e.Connections > 1 {
		say("connections", true, "", "only one transaction writes at a time, with any number of connections", "")
	}
	if e.Rate > 0 {
		checkLoad(say, e.Rate, keep, size, file)
	}
	return out, nil
}

// examineServer checks the free space on the disk of the file.
func (d *doctor) examineServer(ctx context.Context) ([]skald.Finding, error) {
	var file string
	if err := d.run.SQL.QueryRowContext(ctx,
		"SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file); err != nil {
		return nil, sqlexec.Failed("examine the disk", err)
	}
	if file == "" { // a database in memory
		return nil, nil
	}
	f, err := diskfree.Finding(filepath.Dir(file))
	if err != nil {
		f = skald.Finding{Name: "free disk", Grade: skald.Doubtful,
			Observed: fmt.Sprintf("it cannot be read: %v", err), Remedy: "check the disk by other means"}
	}
	return []skald.Finding{f}, nil
}

// checkLoad estimates whether commits permit the rate. Commits run one at a time. It also estimates the disk
// space that the retention needs at that rate.
func checkLoad(say func(name string, ok bool, worst skald.Grade, saw, remedy string), rate float64,
	keep store.Retention, size int64, file string) {
	if file != "" { // not in memory
		switch flush, err := flushTime(filepath.Dir(file)); {
		case err != nil:
			say("rate", false, skald.Doubtful, fmt.Sprintf("the time of a commit could not be measured: %v",
				err), "let this user create a temporary file next to the database")
		default:
			most := 1 / flush.Seconds()
			say("rate", most >= rate, skald.Doubtful,
				fmt.Sprintf("a commit waits %v for the disk, and only one commits at a time: at most %.0f messages/s one by one, %.0f are needed", flush.Round(time.Microsecond), most, rate),
				"set inbox.Options.Batch, so that several messages share a commit, or use PostgreSQL")
		}
	}
	if full, err := retention.OrDefaults(keep); err == nil {
		keep = full
	}
	gib := func(bytes float64, keep time.Duration) float64 {
		return bytes * rate * keep.Seconds() / (1 << 30)
	}
	say("disk", true, "",
		fmt.Sprintf("at %.0f messages/s of 256 bytes the outbox takes %.1f GiB and the marks of each consumer %.1f GiB; the file has %.1f GiB now",
			rate, gib(rowBytes, keep.Outbox), gib(markBytes, keep.Marks), float64(size)/(1<<30)), "")
}

// flushTime returns the time to flush a page of a file in dir to the disk, as a commit does. It returns the
// median of 15 tries with a temporary file.
func flushTime(dir string) (_ time.Duration, err error) {
	f, err := os.CreateTemp(dir, "skald-doctor-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	took := make([]time.Duration, 15)
	for i := range took {
		began := time.Now()
		if _, err := f.WriteAt(make([]byte, 4096), int64(i)*4096); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return cmp.Or(took[len(took)/2], time.Nanosecond), nil
}
