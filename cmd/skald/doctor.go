package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
)

const doctorAbout = `Looks at a database and a broker for what stands against Skald's promises or against the load, and says what to do about it.
It changes nothing; with --rate it times a small file of its own beside one of SQLite. Exit code 8 if something failed; a warning is no failure. What failed and is meant so, --accept NAME makes a warning.

  skald doctor --store postgres://… --broker kafka://… --topic orders --topic payments --consumer billing --rate 500

With --metrics URL, where a service serves what its inboxes measure for Prometheus, it compares how long handlers take with
how long they may (--handle).`

// A doctor is what is to be examined, and what it is to be ready for.
type doctor struct {
	schema, bus, metrics, consumer string
	topics, accepted               []string
	exam                           store.Exam
	window                         retention.Window // what is given of it
	brokerKeeps                    time.Duration
	asJSON                         bool

	keeps *store.Retention // of the database; nil: it did not tell
	found []finding
}

// A finding is what --json prints: its names are stable.
type finding struct {
	About  string      `json:"about"` // store, broker, window, handlers
	Name   string      `json:"name"`
	Grade  skald.Grade `json:"grade"`
	Saw    string      `json:"saw"`
	Remedy string      `json:"remedy"`
}

func doctorCommand(out io.Writer) *cobra.Command {
	d := &doctor{}
	c := &cobra.Command{Use: "doctor", Short: "What stands against the promises, or the load", Long: doctorAbout, Args: cobra.NoArgs}
	storeFlags(c, &d.schema, &d.asJSON)
	f := c.Flags()
	f.String("broker", "", "kafka://…, nats://… or amqp://…; SKALD_BROKER stands for it")
	f.StringArrayVar(&d.topics, "topic", nil, "to be looked at, at the broker; again for each further one")
	f.StringVar(&d.consumer, "consumer", "", "a consumer group: what is kept for it, and on RabbitMQ its queues")
	f.Float64Var(&d.exam.Rate, "rate", 0, "how many messages a second it is to be ready for")
	f.DurationVar(&d.exam.Handle, "handle", time.Minute, "inbox.Options.Handle: how long a handler may take")
	f.IntVar(&d.exam.Connections, "connections", 0, "how many connections all processes want together")
	f.StringArrayVar(&d.accepted, "accept", nil, "the name of a finding that is known and meant: if it failed, it is a warning; again for each further one")
	f.StringVar(&d.metrics, "metrics", "", "http://…/metrics of a service: how long its handlers take")
	f.DurationVar(&d.window.Outbox, "outbox", 7*24*time.Hour, "how long producers' outboxes keep rows, or their longest lag")
	f.DurationVar(&d.window.Age, "age", 24*time.Hour, "inbox.Options.Age: how long a failing message is tried again")
	f.DurationVar(&d.window.Saga, "saga", 0, "the longest that a saga lives (default: there is none)")
	f.DurationVar(&d.window.Dead, "dead", 0, "how long dead letters may still come from elsewhere (default: they do not)")
	f.DurationVar(&d.brokerKeeps, "broker-keeps", 0, "how long the broker keeps messages of each --topic, or of any (default: it is asked, of each --topic)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := d.sensible(c); err != nil {
			return err
		}
		at := from(c, "store", "SKALD_STORE")
		d.bus = from(c, "broker", "SKALD_BROKER")
		if at == "" && d.bus == "" {
			return &place.UsageError{What: "whom? Give --store, --broker or both"}
		}
		if at == "" && (d.exam.Rate != 0 || d.exam.Connections != 0) {
			return &place.UsageError{What: "--rate and --connections are asked of the database: give --store, too"}
		}
		if at != "" {
			db, err := openDatabase(at, d.schema, "")
			if err != nil {
				return err
			}
			d.store(c.Context(), db)
		}
		if err := d.broker(c.Context()); err != nil {
			return err
		}
		d.handlers(c.Context())
		if err := d.accept(); err != nil {
			return err
		}
		return d.tell(out)
	}
	return c
}

func (d *doctor) say(about, name string, grade skald.Grade, saw, remedy string) {
	if grade == skald.Fine {
		remedy = ""
	}
	d.found = append(d.found, finding{about, name, grade, saw, remedy})
}

// failed says that something could not be looked at, or is not as it must be.
func (d *doctor) failed(about, name string, err error) {
	var right *store.RightError
	todo := strings.TrimPrefix(remedy(err), ": ")
	if errors.As(err, &right) {
		todo = right.Remedy
	}
	d.say(about, name, skald.Failed, err.Error(), cmp.Or(todo, "do what it says, and look again"))
}

func (d *doctor) take(about string, list []skald.Finding) {
	for _, f := range list {
		d.say(about, f.Name, f.Grade, f.Saw, f.Remedy)
	}
}

// a subject is a store that can be examined.
type subject interface {
	knower
	store.Examiner
	store.Overseer
	Backlog(ctx context.Context) (store.Backlog, error)
	store.KindWatcher
}

func (d *doctor) store(ctx context.Context, db database) {
	const about = "store"
	all, done, err := db.stores(ctx, rooms{})
	if err != nil {
		d.failed(about, "connection", err)
		return
	}
	defer done()
	s, ok := all[0].(subject)
	if !ok {
		d.failed(about, "connection", fmt.Errorf("%T cannot be examined", all[0]))
		return
	}
	if !d.rights(ctx, s) {
		return
	}
	d.kept(ctx, s)
	d.types(ctx, s)
	list, err := s.Examine(ctx, d.exam)
	if err != nil {
		d.failed(about, "server", err)
		return
	}
	d.take(about, list)
	keeps, err := s.Keeps(ctx)
	if err != nil {
		d.failed(about, "retention", err)
		return
	}
	d.keeps = &keeps
}

// rights tells whether the tables can be looked at: each role is told apart, and whoever has none of them cannot work.
func (d *doctor) rights(ctx context.Context, s subject) (usable bool) {
	const about = "store"
	var lacking []error
	for _, role := range []store.Role{store.App, store.Relay} {
		err := s.Check(ctx, role)
		var right *store.RightError
		switch {
		case err == nil:
			d.say(about, "rights of "+string(role), skald.Fine, "it has all that it needs", "")
		case errors.As(err, &right):
			lacking = append(lacking, err)
			d.say(about, "rights of "+string(role), skald.Doubtful, fmt.Sprintf("this user lacks %s", right.What), right.Remedy+", if it is to do this work")
		default:
			d.failed(about, "tables", err)
			return false
		}
	}
	if len(lacking) == 2 {
		d.failed(about, "rights", lacking[0])
		return false
	}
	d.say(about, "tables", skald.Fine, "they are there, in a version that this build works with", "")
	return true
}

// unsettled is how long a call to the outside may be so without anybody looking: as the alert has it.
const unsettled = 5 * time.Minute

// kept is what waits in the database.
func (d *doctor) kept(ctx context.Context, s subject) {
	const about = "store"
	b, err := s.Backlog(ctx)
	if err != nil {
		d.failed(about, "backlog", err)
		return
	}
	graded := func(ok bool, worse skald.Grade) skald.Grade {
		if ok {
			return skald.Fine
		}
		return worse
	}
	d.say(about, "relay", graded(b.Free == 0, skald.Doubtful), fmt.Sprintf("%d lanes have none", b.Free), "run: skald relay, unless nothing is written here")
	d.say(about, "outbox", graded(b.Oldest <= time.Minute && b.Aside == 0, skald.Doubtful),
		fmt.Sprintf("%d rows wait, the oldest for %v; %d are set aside", b.Pending, b.Oldest.Round(time.Second), b.Aside), "docs/operations.md: SkaldOutboxOld, SkaldSetAside")
	for _, k := range b.Kept {
		if d.consumer == "" || d.consumer == k.Consumer {
			d.say(about, "kept for "+k.Consumer, graded(k.Dead+k.Conflicts+k.TooOld == 0 && k.Oldest < time.Hour, skald.Doubtful),
				fmt.Sprintf("%d parked, the oldest for %v; %d dead letters; in quarantine %d in conflict and %d too old", k.Parked, k.Oldest.Round(time.Second), k.Dead, k.Conflicts, k.TooOld),
				"skald parked list, skald dead groups, skald inbox status")
			if k.Calls > 0 {
				d.say(about, "calls of "+k.Consumer, graded(k.Called <= unsettled, skald.Doubtful),
					fmt.Sprintf("of %d calls to the outside it is not settled what became of them, the oldest was to be made %v ago", k.Calls, k.Called.Round(time.Second)),
					"docs/operations.md: SkaldCallUnsettled")
			}
		}
	}
}

// types are those that not every instance of a consumer handles.
func (d *doctor) types(ctx context.Context, s subject) {
	const about = "store"
	list, err := s.LeftKinds(ctx)
	var right *store.RightError
	switch {
	case errors.As(err, &right): // a relay's user: it is no matter of his
		d.say(about, "types", skald.Fine, "this user may not look who handles what", "")
		return
	case err != nil:
		d.failed(about, "types", err)
		return
	}
	none := true
	for _, k := range list {
		if d.consumer != "" && d.consumer != k.Consumer {
			continue
		}
		heard := "nobody who handles it is known"
		if k.Heard >= 0 {
			heard = fmt.Sprintf("one who handles it was last heard of %v ago", k.Heard.Round(time.Second))
		}
		none = false
		d.say(about, "types of "+k.Consumer, skald.Doubtful,
			fmt.Sprintf("the instance on %s has no handler for %s of %s: %d messages were left to another build, and wait; %s", cmp.Or(k.Host, "?"), k.Type, k.Topic, k.Messages, heard),
			"end the rollout: run the build that handles it everywhere. Where nobody does, they are dead letters within half an hour")
	}
	if none {
		d.say(about, "types", skald.Fine, "no message waits for a build that handles its type", "")
	}
}

// accept makes warnings of what failed and is meant so. A name that nothing has is a mistake: what it was to let pass is another.
func (d *doctor) accept() error {
	for _, name := range d.accepted {
		known := false
		for i := range d.found {
			f := &d.found[i]
			known = known || f.Name == name
			if f.Name == name && f.Grade == skald.Failed {
				f.Grade, f.Saw = skald.Doubtful, f.Saw+" (accepted)"
			}
		}
		if !known {
			return &place.UsageError{What: fmt.Sprintf("--accept %q: there is no finding of that name; without it each is listed with its name", name)}
		}
	}
	return nil
}

func (d *doctor) tell(out io.Writer) error {
	failed, warned := 0, 0
	for _, f := range d.found {
		switch f.Grade {
		case skald.Failed:
			failed++
		case skald.Doubtful:
			warned++
		}
	}
	if d.asJSON {
		err := json.NewEncoder(out).Encode(map[string]any{"ok": failed == 0, "failed": failed, "warnings": warned, "findings": d.found})
		return errors.Join(err, verdictOf(failed, len(d.found)))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range d.found {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Grade, f.About, f.Name, cmp.Or(f.Saw, "–"))
		if f.Remedy != "" {
			fmt.Fprintf(w, "\t\t\t→ %s\n", f.Remedy)
		}
	}
	return errors.Join(w.Flush(), verdictOf(failed, len(d.found)))
}

// verdictOf is exit code 8 if something failed.
func verdictOf(failed, all int) error {
	if failed == 0 {
		return nil
	}
	return &place.FailedError{Err: fmt.Errorf("doctor: %d of %d checks failed", failed, all)}
}
