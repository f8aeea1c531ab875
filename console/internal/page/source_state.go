// This file reads the state of a database for the overview, and checks the conditions of the alerts.

package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// SourceState is the state of a database on the overview.
type SourceState struct {
	Source        string        `json:"source"`
	Pending       int64         `json:"pending"`
	Exact         bool          `json:"exact"` // false if Pending is an estimate
	OldestSeconds float64       `json:"oldest_seconds"`
	Deferred      int64         `json:"deferred"`
	Shards        int           `json:"shards"`
	Free          int           `json:"shards_without_relay"`
	Relays        []relayLine   `json:"relays"`
	Consumers     []Consumer    `json:"consumers"`
	Sagas         []sagasAt     `json:"sagas"` // the orchestrated sagas, by definition
	Findings      []finding     `json:"findings"`
	Hour          []Point       `json:"last_hour"` // recorded when the overview was read
	At            time.Time     `json:"at"`        // when the database was read
	Oldest        time.Duration `json:"-"`         // the same time as OldestSeconds
}

type relayLine struct {
	Owner           string  `json:"owner"`
	Shards          int     `json:"shards"`
	Pending         int64   `json:"pending"`
	ProgressSeconds float64 `json:"progress_seconds"`
}

// Consumer is the state of a consumer, with its parked and dead messages.
type Consumer struct {
	Name   string   `json:"name"`
	Topics []string `json:"topics"`
	// HeardSeconds is the age of the last heartbeat; -1 if there was none.
	HeardSeconds    float64 `json:"heard_seconds"`
	ProgressSeconds float64 `json:"progress_seconds"`
	Parked          int64   `json:"parked"`
	ParkedSeconds   float64 `json:"parked_seconds"`
	Dead            int64   `json:"dead"`
	Conflicts       int64   `json:"conflicts"`
	TooOld          int64   `json:"too_old"`
	Calls           int64   `json:"calls"`
}

// sagasAt counts the sagas of a definition by state. Each number is at most 10,000.
type sagasAt struct {
	Name         string `json:"name"`
	Running      int64  `json:"running"`
	Compensating int64  `json:"compensating"`
	Stuck        int64  `json:"stuck"`
	Paused       int64  `json:"paused"`
	Failing      int64  `json:"failing"`
	Overdue      int64  `json:"overdue"`
}

// finding is a condition of an alert that is true now. Name is the name of the alert.
type finding struct {
	Name     string      `json:"name"`
	Grade    skald.Grade `json:"grade"`
	Observed string      `json:"observed"`
	Remedy   string      `json:"remedy"`
}

// stateOf converts the status s to the state of the source with this name.
func stateOf(name string, s *store.Status) SourceState {
	out := SourceState{Source: name, Pending: s.Outbox.Pending, Exact: s.Outbox.Exact,
		Deferred: s.Outbox.Deferred, Shards: len(s.Outbox.Shards),
		Oldest: s.Outbox.Oldest, OldestSeconds: s.Outbox.Oldest.Seconds(), Relays: []relayLine{},
		Consumers: []Consumer{}, Sagas: []sagasAt{}, Findings: []finding{}}
	for _, shard := range s.Outbox.Shards {
		if shard.Owner == "" {
			out.Free++
			continue
		}
		i := slices.IndexFunc(out.Relays, func(r relayLine) bool { return r.Owner == shard.Owner })
		if i < 0 {
			i = len(out.Relays)
			out.Relays = append(out.Relays, relayLine{Owner: shard.Owner})
		}
		out.Relays[i].Shards++
		out.Relays[i].Pending += shard.Pending
	}
	for _, p := range s.Relays {
		if i := slices.IndexFunc(out.Relays, func(r relayLine) bool { return r.Owner == p.Owner }); i >= 0 {
			out.Relays[i].ProgressSeconds = p.Progress.Seconds()
		}
	}
	slices.SortFunc(out.Relays, func(a, b relayLine) int { return strings.Compare(a.Owner, b.Owner) })
	out.consumers(s)
	for _, c := range s.Sagas {
		out.Sagas = append(out.Sagas, sagasAt{c.Name, c.Running, c.Compensating, c.Stuck, c.Paused,
			c.Failing, c.Overdue})
	}
	out.findings(s)
	return out
}

func (s *SourceState) consumers(from *store.Status) {
	at := func(name string) *Consumer {
		i := slices.IndexFunc(s.Consumers, func(c Consumer) bool { return c.Name == name })
		if i < 0 {
			i = len(s.Consumers)
			s.Consumers = append(s.Consumers, Consumer{Name: name, Topics: []string{}, HeardSeconds: -1})
		}
		return &s.Consumers[i]
	}
	for _, c := range from.Consumers {
		l := at(c.Name)
		l.HeardSeconds, l.ProgressSeconds = c.LastHeartbeat.Seconds(), c.Progress.Seconds()
		l.Topics = append(l.Topics, c.Topics...)
	}
	for _, k := range from.PerConsumer {
		l := at(k.Consumer)
		l.Parked, l.ParkedSeconds, l.Dead = k.Parked, k.Oldest.Seconds(), k.Dead
		l.Conflicts, l.TooOld, l.Calls = k.Conflicts, k.TooOld, k.Calls
	}
	slices.SortFunc(s.Consumers, func(a, b Consumer) int { return strings.Compare(a.Name, b.Name) })
}

// findings checks the conditions of the alerts in deploy/prometheus, as far as they depend only on the
// database.
func (s *SourceState) findings(from *store.Status) {
	report := func(is bool, name string, grade skald.Grade, saw string, args ...any) {
		if is {
			s.Findings = append(s.Findings, finding{name, grade, fmt.Sprintf(saw, args...),
				"docs/operations.md: " + name})
		}
	}
	relay := skald.Doubtful
	if s.Pending > 0 {
		relay = skald.Failed
	}
	missed := retention.Unrelayed(store.Backlog{Pending: s.Pending, Deferred: s.Deferred,
		Retained: from.Retained, Free: s.Free})
	report(missed > 0, "SkaldRelayGone", relay, "%d of %d shards have no relay", missed, s.Shards)
	report(s.Oldest > time.Minute, "SkaldOutboxOld", skald.Failed,
		"the oldest message has waited to be published for %s", Ago(s.Oldest))
	report(s.Deferred > 0, "SkaldDeferred", skald.Doubtful, "the broker refused messages: %d wait",
		s.Deferred)
	report(from.Retained > 9*24*time.Hour, "SkaldRetentionStalled", skald.Doubtful,
		"the oldest row of the outbox is %s old", Ago(from.Retained))
	for _, k := range from.PerConsumer {
		report(k.Oldest > time.Hour, "SkaldParkedOld", skald.Doubtful, "%s: a message has been parked for %s",
			k.Consumer, Ago(k.Oldest))
		report(k.Dead > 0, "SkaldDead", skald.Failed, "%s: %s", k.Consumer,
			CountOf(k.Dead, "dead letter", "dead letters"))
		report(k.Conflicts > 0, "SkaldConflict", skald.Doubtful, "%s: %s in conflict", k.Consumer,
			CountOf(k.Conflicts, "message", "messages"))
		report(k.TooOld > 0, "SkaldTooOld", skald.Doubtful, "%s: %s too old", k.Consumer,
			CountOf(k.TooOld, "message is", "messages are"))
		report(k.OldestCall > 5*time.Minute, "SkaldCallUnsettled", skald.Doubtful,
			"%s: an external call has been unsettled for %s", k.Consumer, Ago(k.OldestCall))
	}
	for _, c := range from.Consumers {
		report(c.LastHeartbeat > operate.GoneAfter && c.LastHeartbeat <= operate.RetiredAfter, "SkaldConsumerGone", skald.Failed,
			"%s has sent no heartbeat for %s", c.Name, Ago(c.LastHeartbeat))
	}
	for _, c := range from.Sagas {
		report(c.Stuck > 0, "SkaldSagaStuck", skald.Failed, "%s: %s stuck", c.Name,
			CountOf(c.Stuck, "saga is", "sagas are"))
		report(c.Overdue > 0, "SkaldSagaOverdue", skald.Failed, "%s: no engine has claimed %s", c.Name,
			CountOf(c.Overdue, "due saga", "due sagas"))
	}
	for _, c := range from.Tracked {
		report(c.Overdue > 0, "SkaldTrackedOverdue", skald.Failed, "%s: %s overdue, %s the longest",
			c.Flow, CountOf(c.Overdue, "saga is", "sagas are"), c.OverdueKey)
		report(c.Drifted > 0, "SkaldTrackedDrift", skald.Doubtful,
			"%s: %s received events that the flow does not allow, most recently %s",
			c.Flow, CountOf(c.Drifted, "saga", "sagas"), c.DriftedKey)
	}
	report(from.Uncounted != nil, "SkaldSagasUncounted", skald.Doubtful,
		"sagas cannot be counted, so their state is unknown")
	for _, r := range from.Reserved {
		report(r.Expired > 0, "SkaldReservationExpired", skald.Doubtful,
			"%s: the leases of %s keys expired without an answer", r.Consumer, Counted(r.Expired))
	}
	// The name of the grade Failed sorts before the others.
	slices.SortStableFunc(s.Findings,
		func(a, b finding) int { return strings.Compare(string(a.Grade), string(b.Grade)) })
}

// Point returns the values of s for the plots.
func (s *SourceState) Point() Point {
	now := Point{At: s.At, Pending: s.Pending, OldestSeconds: s.OldestSeconds}
	for _, c := range s.Consumers {
		now.Kept += c.Parked + c.Dead
	}
	return now
}
