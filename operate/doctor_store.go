package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
)

// rights checks the rights of each role. It returns false if the tables cannot be read, or if the user has
// the rights of no role.
func (d *Doctor) rights(ctx context.Context, s DoctorStore) (usable bool) {
	const about = "store"
	var lacking []error
	for _, role := range []store.Role{store.App, store.Relay} {
		err := s.Check(ctx, role)
		var right *store.RightError
		var moved *store.MovedError
		switch {
		case err == nil:
			d.Add(about, "rights of "+string(role), skald.Fine, "the user has all rights of this role", "")
		case errors.As(err, &right):
			lacking = append(lacking, err)
			d.Add(about, "rights of "+string(role), skald.Doubtful,
				fmt.Sprintf("this user lacks %s", right.What), right.Remedy+", if this user needs this role")
		case errors.As(err, &moved): // its error has the remedy
			d.Failed(about, "moved", err)
		case ctx.Err() != nil:
			d.Add(about, "tables", skald.Failed, "no answer within "+checkWithin.String(),
				blockedRemedy)
			return true // another check may find the cause
		default:
			d.Failed(about, "tables", err)
			return false
		}
	}
	if len(lacking) == 2 {
		d.Failed(about, "rights", lacking[0])
		return false
	}
	d.Add(about, "tables", skald.Fine, "they exist, in a version that this build supports", "")
	return true
}

// checkConsumer adds a finding if the database has no data of Doctor.Consumer. Without this check, all checks
// of a misspelt consumer would pass.
func (d *Doctor) checkConsumer(b *store.Backlog) {
	var names []string
	for i := range b.Consumers {
		names = append(names, b.Consumers[i].Name)
	}
	for i := range b.PerConsumer {
		names = append(names, b.PerConsumer[i].Consumer)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if d.Consumer == "" || slices.Contains(names, d.Consumer) {
		return
	}
	d.Add("store", "consumer", skald.Failed, fmt.Sprintf("no consumer %s is known; known: %s", d.Consumer,
		cmp.Or(strings.Join(names, ", "), "none")),
		"give the name that its inbox uses; if it has never started, start it first, or use --accept consumer")
}

// callsStuck is the time that an external call may be due without a known outcome. The alert
// SkaldCallUnsettled has the same limit.
const callsStuck = 5 * time.Minute

// relayCutOff is the time without an answer of the broker after which a relay gives up its shards.
const relayCutOff = 15 * time.Second

// backlog adds findings about relays, the outbox, and the messages that consumers have parked.
func (d *Doctor) backlog(ctx context.Context, s DoctorStore) error {
	const about = "store"
	b, err := store.ReadBacklog(ctx, s)
	if err != nil {
		return err
	}
	d.consumers = b.Consumers
	d.checkConsumer(&b)
	graded := func(ok bool, worse skald.Grade) skald.Grade {
		if ok {
			return skald.Fine
		}
		return worse
	}
	alone := skald.Doubtful
	if b.Pending > 0 {
		alone = skald.Failed // rows wait, and no relay publishes them
	}
	d.Add(about, "relay", graded(retention.Unrelayed(b) == 0, alone),
		fmt.Sprintf("%d shards have no relay", b.Free),
		"run: skald relay, unless nothing is written here")
	d.cutOff(b.Relays)
	d.Add(about, "outbox", graded(b.Oldest <= time.Minute && b.Deferred == 0, skald.Doubtful),
		fmt.Sprintf("%d rows wait, the oldest for %v; %d are deferred", b.Pending,
			b.Oldest.Round(time.Second), b.Deferred), "docs/operations.md: SkaldOutboxOld, SkaldDeferred")
	for _, k := range b.PerConsumer {
		d.keepers = append(d.keepers, k.Consumer)
		if d.matches(k.Consumer) {
			d.Add(about, "kept for "+k.Consumer,
				graded(k.Parked+k.Dead+k.Conflicts+k.TooOld == 0, skald.Doubtful),
				fmt.Sprintf("%d parked (%d bytes), the oldest for %v; %d dead letters (%d bytes); in quarantine %d in conflict and %d too old (%d bytes)", k.Parked, k.Bytes, k.Oldest.Round(time.Second), k.Dead, k.DeadBytes, k.Conflicts, k.TooOld, k.QuarantineBytes),
				"skald parked list, skald dead groups, skald inbox status")
			if k.Calls > 0 {
				d.Add(about, "calls of "+k.Consumer, graded(k.OldestCall <= callsStuck, skald.Doubtful),
					fmt.Sprintf("%d calls to other systems have an unknown outcome; the oldest was due %v ago", k.Calls, k.OldestCall.Round(time.Second)),
					"docs/operations.md: SkaldCallUnsettled")
			}
		}
	}
	return nil
}

// cutOff adds a finding for each relay with a broker that does not answer.
func (d *Doctor) cutOff(relays []store.RelayProgress) {
	for _, r := range relays {
		if r.BrokerAway < relayCutOff {
			continue
		}
		grade, has := skald.Doubtful, "other relays own its shards"
		if r.Shards > 0 {
			grade, has = skald.Failed, fmt.Sprintf("it owns %d shards, and their messages wait", r.Shards)
		}
		d.Add("store", "relay "+r.Owner, grade, fmt.Sprintf("it has not reached its broker for %v; %s",
			r.BrokerAway.Round(time.Second), has), "docs/operations.md: SkaldRelayCutOff")
	}
}

// types adds a finding for each message type that some instance of a consumer does not handle.
func (d *Doctor) types(ctx context.Context, s DoctorStore) error {
	const about = "store"
	status, err := s.Status(ctx, store.StatusQuery{Unhandled: true})
	var right *store.RightError
	switch {
	case errors.As(err, &right): // the user of a relay
		d.Add(about, "types", skald.Fine, "this user may not read the types that consumers handle", "")
		return nil
	case err != nil:
		return err
	}
	none := true
	for _, k := range status.Unhandled {
		if !d.matches(k.Consumer) {
			continue
		}
		handled := "no instance that handles it is known"
		if k.LastHeartbeat >= 0 {
			handled = fmt.Sprintf("an instance that handles it last sent a heartbeat %v ago", k.LastHeartbeat.Round(time.Second))
		}
		none = false
		d.Add(about, "types of "+k.Consumer, skald.Doubtful,
			fmt.Sprintf("the instance on %s has no handler for %s of %s: %d messages wait for another build; %s", cmp.Or(k.Host, "?"), k.Type, k.Topic, k.Messages, handled),
			"end the rollout: run the build that handles it everywhere. If no build handles it, the messages become dead letters within half an hour")
	}
	if none {
		d.Add(about, "types", skald.Fine, "no message waits for a build that handles its type", "")
	}
	return nil
}

// missed adds findings about messages that the broker removed before a consumer read them.
func (d *Doctor) missed(ctx context.Context, s AuditStore) error {
	notes, err := Missed(ctx, s)
	if err == nil {
		d.take("store", MissedFindings(notes))
	}
	return err
}
