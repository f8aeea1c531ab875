// This file examines stores and brokers, and collects findings.

package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/store"
)

// A Doctor looks at a database and a broker for what stands against Skald's promises or against the load. It
// changes nothing. Call what applies of Store, Broker, Windows and Standing, in this order, and read Found.
type Doctor struct {
	Consumer string   // a consumer group: what is kept for it, and on RabbitMQ its queues. "": all
	Topics   []string // to be looked at, at the broker
	Exam     store.Exam
	// Remedy says what to do about an error that a server answered, or did not answer; nil, or an empty text:
	// it is not known.
	Remedy func(err error) string
	// Inspect tells of a message of the outbox what its content type does not; nil: that is not looked at.
	Inspect func(ctx context.Context, m skald.Message) (Payload, error)

	Found []Finding

	keeps     *store.Retention // of the database; nil: it did not tell
	consumers []store.Consumer
	keepers   []string                    // consumers that the database keeps messages for
	lag       map[string]map[string]int64 // by consumer and topic, as far as the broker told
}

// A Finding is what a Doctor saw: its names in JSON are stable.
type Finding struct {
	About  string      `json:"about"` // store, broker, window, handlers
	Name   string      `json:"name"`
	Grade  skald.Grade `json:"grade"`
	Saw    string      `json:"saw"`
	Remedy string      `json:"remedy"`
}

// Say adds a finding.
func (d *Doctor) Say(about, name string, grade skald.Grade, saw, remedy string) {
	if grade == skald.Fine {
		remedy = ""
	}
	d.Found = append(d.Found, Finding{about, name, grade, saw, remedy})
}

// Failed adds that something could not be looked at, or is not as it must be.
func (d *Doctor) Failed(about, name string, err error) {
	todo := ""
	if right := new(store.RightError); errors.As(err, &right) {
		todo = right.Remedy
	} else if d.Remedy != nil {
		todo = d.Remedy(err)
	}
	d.Say(about, name, skald.Failed, err.Error(), cmp.Or(todo, "do what it says, and look again"))
}

func (d *Doctor) take(about string, list []skald.Finding) {
	for _, f := range list {
		d.Say(about, f.Name, f.Grade, f.Saw, f.Remedy)
	}
}

// means tells whether a consumer is to be looked at.
func (d *Doctor) means(consumer string) bool { return d.Consumer == "" || d.Consumer == consumer }

// Standing judges how consumers get on, once it is known what waits for them.
func (d *Doctor) Standing() { d.take("store", Standing(d.consumers, d.lag, d.means)) }

// Accept makes warnings of what failed and is known by one of these names. A name that nothing has is a
// *UsageError: what it was to let pass is another.
func (d *Doctor) Accept(names ...string) error {
	for _, name := range names {
		known := false
		for i := range d.Found {
			f := &d.Found[i]
			known = known || f.Name == name
			if f.Name == name && f.Grade == skald.Failed {
				f.Grade, f.Saw = skald.Doubtful, f.Saw+" (accepted)"
			}
		}
		if !known {
			return &UsageError{What: fmt.Sprintf(
				"--accept %q: there is no finding of that name; without it each is listed with its name",
				name)}
		}
	}
	return nil
}

// A Subject is what a Doctor asks of a store.
type Subject interface {
	Auditor
	store.Teller
	store.Lister
	Check(ctx context.Context, as store.Role) error
	Examine(ctx context.Context, e store.Exam) ([]skald.Finding, error)
}

const checkWithin = 2 * time.Second // each look at the database

// Store looks at a database. What needs no table of Skald's comes first: where one is locked, that says by
// whom. A look that gets no answer within 2 s is a finding, and the others go on.
func (d *Doctor) Store(ctx context.Context, s Subject) {
	d.secure("store", s)
	// First what needs no table of Skald's: where one is locked, this says by whom.
	d.check(ctx, "server", func(ctx context.Context) error {
		list, err := s.Examine(ctx, store.Exam{Server: true})
		d.take("store", list)
		return err
	})
	usable := false
	d.check(ctx, "rights", func(ctx context.Context) error {
		usable = d.rights(ctx, s)
		return nil
	})
	if !usable {
		return
	}
	d.check(ctx, "backlog", func(ctx context.Context) error { return d.backlog(ctx, s) })
	d.check(ctx, "payloads", func(ctx context.Context) error { return d.payloads(ctx, s) })
	d.check(ctx, "uncharged", func(ctx context.Context) error { return d.uncharged(ctx, s) })
	d.check(ctx, "types", func(ctx context.Context) error { return d.types(ctx, s) })
	d.check(ctx, "sagas", func(ctx context.Context) error { return d.sagas(ctx, s) })
	d.check(ctx, "missed", func(ctx context.Context) error { return d.missed(ctx, s) })
	d.check(ctx, "settings", func(ctx context.Context) error {
		list, err := s.Examine(ctx, d.Exam)
		d.take("store", list)
		return err
	})
	d.check(ctx, "retention", func(ctx context.Context) error {
		status, err := s.Status(ctx, store.StatusQuery{Retention: true})
		if err == nil {
			d.keeps = &status.Retention
		}
		return err
	})
}

// check bounds a look at the database. One that does not answer is a finding, and the others go on.
func (d *Doctor) check(ctx context.Context, name string, look func(context.Context) error) {
	const about = "store"
	bounded, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	err := look(bounded)
	switch {
	case err == nil:
	case bounded.Err() != nil:
		d.Say(about, name, skald.Failed, fmt.Sprintf("no answer within %v", checkWithin),
			"see \"blocked\": somebody holds a lock on a table that this reads, or the server is overloaded")
	default:
		d.Failed(about, name, err)
	}
}

// secure tells whether what goes over a network is encrypted; of what knows of no network it says nothing.
func (d *Doctor) secure(about string, v any) {
	wire, ok := v.(endpoint.Wire)
	if !ok {
		return
	}
	if hosts := wire.Unencrypted(); len(hosts) > 0 {
		d.Say(about, "tls", skald.Failed, "nothing makes sure that what is said to "+
			strings.Join(hosts, ", ")+" is encrypted", endpoint.EncryptRemedy)
		return
	}
	d.Say(about, "tls", skald.Fine, "it is encrypted, or on this machine", "")
}
