// This file has the Doctor and its checks of the database.

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

// Doctor examines a database and a broker for risks to Skald's guarantees and to throughput. It changes
// nothing. Call Store, Broker, Windows and Consumers in this order. Leave out Store or Broker if you have no
// database or no broker to examine. Then read Found.
type Doctor struct {
	// Consumer limits the checks to this consumer. Empty means all consumers. On RabbitMQ, Doctor also
	// checks the queues of this consumer for Topics.
	Consumer string
	Topics   []string // the topics to examine at the broker
	Exam     store.Exam
	// Remedy returns the remedy for an error of a server, or for an unreachable server. An empty result
	// means that no remedy is known. Remedy may be nil.
	Remedy func(err error) string
	// Inspect decodes a message of the outbox. If Inspect is nil, Doctor decodes no messages.
	Inspect func(ctx context.Context, m skald.Message) (Payload, error)

	Found []Finding

	keeps     *store.Retention // of the database; nil until Store has read it
	consumers []store.Consumer
	keepers   []string                    // consumers with parked messages, dead letters or quarantine
	lag       map[string]map[string]int64 // by consumer and topic; without the lags that could not be read
}

// Finding is one result of a Doctor. The JSON field names are stable.
type Finding struct {
	About    string      `json:"about"` // store, broker, window, handlers
	Name     string      `json:"name"`
	Grade    skald.Grade `json:"grade"`
	Observed string      `json:"observed"`
	Remedy   string      `json:"remedy"`
}

// Add adds a finding to Found. It ignores the remedy if the grade is Fine.
func (d *Doctor) Add(about, name string, grade skald.Grade, saw, remedy string) {
	if grade == skald.Fine {
		remedy = ""
	}
	d.Found = append(d.Found, Finding{about, name, grade, saw, remedy})
}

// Failed adds a finding of grade Failed for the error of a check.
func (d *Doctor) Failed(about, name string, err error) {
	todo := ""
	if right := new(store.RightError); errors.As(err, &right) {
		todo = right.Remedy
	} else if d.Remedy != nil {
		todo = d.Remedy(err)
	}
	d.Add(about, name, skald.Failed, err.Error(), cmp.Or(todo, "remove the cause, and run doctor again"))
}

func (d *Doctor) take(about string, list []skald.Finding) {
	for _, f := range list {
		d.Add(about, f.Name, f.Grade, f.Observed, f.Remedy)
	}
}

// matches reports whether Doctor.Consumer selects a consumer.
func (d *Doctor) matches(consumer string) bool { return d.Consumer == "" || d.Consumer == consumer }

// Consumers adds a finding for each consumer. It uses the results of Store and Broker.
func (d *Doctor) Consumers() { d.take("store", ConsumerFindings(d.consumers, d.lag, d.matches)) }

// Accept changes the grade of failed findings with one of these names to Doubtful. It returns a *UsageError
// for a name without a finding, because such a name is probably misspelt.
func (d *Doctor) Accept(names ...string) error {
	for _, name := range names {
		known := false
		for i := range d.Found {
			f := &d.Found[i]
			known = known || f.Name == name
			if f.Name == name && f.Grade == skald.Failed {
				f.Grade, f.Observed = skald.Doubtful, f.Observed+" (accepted)"
			}
		}
		if !known {
			return &UsageError{Reason: fmt.Sprintf(
				"--accept %q: no finding has that name; run without --accept to list all names",
				name)}
		}
	}
	return nil
}

// DoctorStore is the part of a store that a Doctor needs.
type DoctorStore interface {
	AuditStore
	store.StatusReader
	store.Lister
	Check(ctx context.Context, as store.Role) error
	Examine(ctx context.Context, e store.Exam) ([]skald.Finding, error)
}

const checkWithin = 2 * time.Second // limits each check of the database

// blockedRemedy is the remedy for a check that timed out.
const blockedRemedy = "see \"blocked\": a session locks a table that this check reads, or the " +
	"server is overloaded"

// Store examines a database. The first check reads no table of Skald, so it also works while a session locks
// the tables, and it finds that session. If a check has no answer within 2 s, Store adds a finding and runs
// the next check.
func (d *Doctor) Store(ctx context.Context, s DoctorStore) {
	d.secure("store", s)
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

// check runs one check of the database with the limit checkWithin. A timeout or an error becomes a
// finding.
func (d *Doctor) check(ctx context.Context, name string, look func(context.Context) error) {
	const about = "store"
	bounded, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	err := look(bounded)
	switch {
	case err == nil:
	case bounded.Err() != nil:
		d.Add(about, name, skald.Failed, fmt.Sprintf("no answer within %v", checkWithin),
			blockedRemedy)
	default:
		d.Failed(about, name, err)
	}
}

// secure reports whether network connections of v are encrypted. It adds nothing if v is not an
// endpoint.Wire.
func (d *Doctor) secure(about string, v any) {
	wire, ok := v.(endpoint.Wire)
	if !ok {
		return
	}
	if hosts := wire.Unencrypted(); len(hosts) > 0 {
		d.Add(about, "tls", skald.Failed, "nothing ensures that traffic to "+
			strings.Join(hosts, ", ")+" is encrypted", endpoint.EncryptRemedy)
		return
	}
	d.Add(about, "tls", skald.Fine, "connections are encrypted, or stay on this machine", "")
}
