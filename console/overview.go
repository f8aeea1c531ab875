package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// A standing is how a database stands: what the overview shows of it.
type standing struct {
	Source        string        `json:"source"`
	Pending       int64         `json:"pending"`
	Exact         bool          `json:"exact"` // false: Pending is an estimate
	OldestSeconds float64       `json:"oldest_seconds"`
	Deferred      int64         `json:"deferred"`
	Shards        int           `json:"shards"`
	Free          int           `json:"shards_without_relay"`
	Relays        []relayLine   `json:"relays"`
	Consumers     []atConsumer  `json:"consumers"`
	Sagas         []sagasAt     `json:"sagas"` // orchestrated ones, by definition
	Findings      []finding     `json:"findings"`
	Hour          []point       `json:"last_hour"` // when somebody looked
	At            time.Time     `json:"at"`        // when it was read
	oldest        time.Duration // as OldestSeconds
}

type relayLine struct {
	Owner           string  `json:"owner"`
	Shards          int     `json:"shards"`
	Pending         int64   `json:"pending"`
	ProgressSeconds float64 `json:"progress_seconds"`
}

// An atConsumer is how a consumer gets on, and what is kept for it.
type atConsumer struct {
	Name   string   `json:"name"`
	Topics []string `json:"topics"`
	// since a process of it gave a sign of life; -1: none ever did
	HeardSeconds    float64 `json:"heard_seconds"`
	ProgressSeconds float64 `json:"progress_seconds"`
	Parked          int64   `json:"parked"`
	ParkedSeconds   float64 `json:"parked_seconds"`
	Dead            int64   `json:"dead"`
	Conflicts       int64   `json:"conflicts"`
	TooOld          int64   `json:"too_old"`
	Calls           int64   `json:"calls"`
}

// A sagasAt is how many sagas of a definition stand how, each counted to 10,000.
type sagasAt struct {
	Name         string `json:"name"`
	Running      int64  `json:"running"`
	Compensating int64  `json:"compensating"`
	Stuck        int64  `json:"stuck"`
	Paused       int64  `json:"paused"`
	Failing      int64  `json:"failing"`
	Overdue      int64  `json:"overdue"`
}

// A finding is what an alert would say: Name is the alert's.
type finding struct {
	Name   string      `json:"name"`
	Grade  skald.Grade `json:"grade"`
	Saw    string      `json:"saw"`
	Remedy string      `json:"remedy"`
}

// standingOf reads how a database stands, once a second for all who look.
func standingOf(ctx context.Context, s *source) (standing, error) {
	is, at, err := s.now.get(ctx, func(ctx context.Context) (is standing, err error) {
		status, err := s.db.Status(ctx, store.StatusQuery{Backlog: true, Outbox: true})
		if err != nil {
			return is, err
		}
		store.CountSagas(ctx, s.db, &status.Backlog)
		return stand(s.name, &status), nil
	})
	is.At = at
	if err == nil {
		now := point{At: at, Pending: is.Pending, OldestSeconds: is.OldestSeconds}
		for _, c := range is.Consumers {
			now.Kept += c.Parked + c.Dead
		}
		is.Hour = s.hour.add(now)
	}
	return is, err
}

func stand(name string, s *store.Status) standing {
	out := standing{Source: name, Pending: s.Outbox.Pending, Exact: s.Outbox.Exact, Deferred: s.Outbox.Deferred, Shards: len(s.Outbox.Shards),
		oldest: s.Outbox.Oldest, OldestSeconds: s.Outbox.Oldest.Seconds(), Relays: []relayLine{}, Consumers: []atConsumer{}, Sagas: []sagasAt{}, Findings: []finding{}}
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
		out.Sagas = append(out.Sagas, sagasAt{c.Name, c.Running, c.Compensating, c.Stuck, c.Paused, c.Failing, c.Overdue})
	}
	out.findings(s)
	return out
}

func (s *standing) consumers(from *store.Status) {
	at := func(name string) *atConsumer {
		i := slices.IndexFunc(s.Consumers, func(c atConsumer) bool { return c.Name == name })
		if i < 0 {
			i = len(s.Consumers)
			s.Consumers = append(s.Consumers, atConsumer{Name: name, Topics: []string{}, HeardSeconds: -1})
		}
		return &s.Consumers[i]
	}
	for _, c := range from.Consumers {
		l := at(c.Name)
		l.HeardSeconds, l.ProgressSeconds = c.Heard.Seconds(), c.Progress.Seconds()
		l.Topics = append(l.Topics, c.Topics...)
	}
	for _, k := range from.Kept {
		l := at(k.Consumer)
		l.Parked, l.ParkedSeconds, l.Dead = k.Parked, k.Oldest.Seconds(), k.Dead
		l.Conflicts, l.TooOld, l.Calls = k.Conflicts, k.TooOld, k.Calls
	}
	slices.SortFunc(s.Consumers, func(a, b atConsumer) int { return strings.Compare(a.Name, b.Name) })
}

// findings go by what the alerts of deploy/prometheus go by, and the database knows.
func (s *standing) findings(from *store.Status) {
	say := func(is bool, name string, grade skald.Grade, saw string, args ...any) {
		if is {
			s.Findings = append(s.Findings, finding{name, grade, fmt.Sprintf(saw, args...), "docs/operations.md: " + name})
		}
	}
	relay := skald.Doubtful
	if s.Pending > 0 {
		relay = skald.Failed
	}
	say(s.Free > 0, "SkaldRelayGone", relay, "%d of %d shards have no relay", s.Free, s.Shards)
	say(s.oldest > time.Minute, "SkaldOutboxOld", skald.Failed, "the oldest message has waited to be published for %s", ago(s.oldest))
	say(s.Deferred > 0, "SkaldDeferred", skald.Doubtful, "the broker refused messages: %d wait", s.Deferred)
	say(from.Retained > 9*24*time.Hour, "SkaldRetentionStalled", skald.Doubtful, "the oldest row of the outbox is %s old", ago(from.Retained))
	for _, k := range from.Kept {
		say(k.Oldest > time.Hour, "SkaldParkedOld", skald.Doubtful, "%s: a message has been parked for %s", k.Consumer, ago(k.Oldest))
		say(k.Dead > 0, "SkaldDead", skald.Failed, "%s: %s dead letters", k.Consumer, counted(k.Dead))
		say(k.Conflicts > 0, "SkaldConflict", skald.Doubtful, "%s: %d messages in conflict", k.Consumer, k.Conflicts)
		say(k.TooOld > 0, "SkaldTooOld", skald.Doubtful, "%s: %d messages are too old", k.Consumer, k.TooOld)
		say(k.Called > 5*time.Minute, "SkaldCallUnsettled", skald.Doubtful, "%s: a call to the outside is not settled since %s", k.Consumer, ago(k.Called))
	}
	for _, c := range from.Consumers {
		say(c.Heard > operate.Gone && c.Heard <= operate.Retired, "SkaldConsumerGone", skald.Failed, "%s gave no sign of life for %s", c.Name, ago(c.Heard))
	}
	for _, c := range from.Sagas {
		say(c.Stuck > 0, "SkaldSagaStuck", skald.Failed, "%s: %s sagas stuck", c.Name, counted(c.Stuck))
		say(c.Overdue > 0, "SkaldSagaOverdue", skald.Failed, "%s: %s sagas due that no engine takes", c.Name, counted(c.Overdue))
	}
	for _, c := range from.Tracked {
		say(c.Overdue > 0, "SkaldTrackedOverdue", skald.Failed, "%s: %s sagas are overdue, %s the longest", c.Flow, counted(c.Overdue), c.OverdueKey)
		say(c.Drifted > 0, "SkaldTrackedDrift", skald.Doubtful, "%s: in %s sagas something came that the flow does not allow, the last time in %s",
			c.Flow, counted(c.Drifted), c.DriftedKey)
	}
	say(from.Uncounted != nil, "SkaldSagasUncounted", skald.Doubtful, "sagas cannot be counted, so nothing is known of them")
	for _, r := range from.Reserved {
		say(r.Expired > 0, "SkaldReservationExpired", skald.Doubtful, "%s: the leases of %s keys ended without an answer", r.Consumer, counted(r.Expired))
	}
	// failed first
	slices.SortStableFunc(s.Findings, func(a, b finding) int { return strings.Compare(string(a.Grade), string(b.Grade)) })
}

// pageOfFinding is the page that lists what was found, and the filter for it; "": no page does.
func pageOfFinding(name string) (path string, filter []string) {
	switch name {
	case "SkaldRelayGone", "SkaldOutboxOld", "SkaldDeferred", "SkaldRetentionStalled":
		return "/outbox", nil
	case "SkaldParkedOld":
		return "/parked", nil
	case "SkaldDead":
		return "/dead/groups", nil
	case "SkaldConflict", "SkaldTooOld":
		return "/quarantine", nil
	case "SkaldCallUnsettled":
		return "/calls", nil
	case "SkaldSagaStuck":
		return "/sagas", []string{"stuck", "1"}
	case "SkaldSagaOverdue":
		return "/sagas", nil
	case "SkaldTrackedOverdue":
		return "/flows", []string{"overdue", "1"}
	case "SkaldTrackedDrift":
		return "/flows", nil
	case "SkaldReservationExpired":
		return "/locks", nil
	}
	return "", nil
}

// mostCounted is up to where counts are exact.
const mostCounted = 10_000

func counted(n int64) string {
	if n > mostCounted {
		return "about " + number(n)
	}
	return number(n)
}

// number writes n with its thousands apart.
func number(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// some64 is so many of a thing.
func some64(n int64, of string) string { return number(n) + " " + of + plural(n) }

func plural(n int64) string {
	if n == 1 {
		return ""
	}
	return "s"
}

type overviewPage struct {
	Sources []standing `json:"sources"`
	Away    []Away     `json:"away"`
}

func overview(q *request) (view, error) {
	got, away := each(q.Context(), q.h, "", standingOf)
	v := &overviewPage{Sources: []standing{}, Away: append([]Away{}, away...)}
	for _, g := range got {
		v.Sources = append(v.Sources, g.is)
	}
	return v, nil
}

func (*overviewPage) title() string { return "Overview" }
func (*overviewPage) live()         {}

func (v *overviewPage) html(p *page) {
	p.away(v.Away)
	var bad int
	for i := range v.Sources {
		bad += len(v.Sources[i].Findings)
	}
	if bad == 0 && len(v.Away) == 0 {
		p.put("<p class=\"note fine\">Nothing calls for anybody.</p>\n")
	}
	for i := range v.Sources {
		v.Sources[i].html(p)
	}
}

func (s *standing) html(p *page) {
	p.put("<section class=\"card\">\n<h2>%s</h2>\n", s.Source)
	for _, f := range s.Findings {
		p.put("<p class=\"note %s\"><b>%s</b> %s. ", gradeClass(f.Grade), f.Name, f.Saw)
		if path, filter := pageOfFinding(f.Name); path != "" {
			p.link("Look", path, append([]string{"in", s.Source}, filter...)...)
		}
		p.put(" <span class=\"dim\">%s</span></p>\n", f.Remedy)
	}
	about := ""
	if !s.Exact {
		about = "about "
	}
	var parked, dead, apart int64
	for _, c := range s.Consumers {
		parked, dead, apart = parked+c.Parked, dead+c.Dead, apart+c.Conflicts+c.TooOld
	}
	p.put("<dl class=\"figures\">\n")
	outbox := p.q.h.at("/outbox", "in", s.Source)
	p.figure("to be published", about+number(s.Pending), s.oldest > time.Minute, outbox)
	p.figure("oldest", ago(s.oldest), s.oldest > time.Minute, "")
	p.figure("deferred", number(s.Deferred), s.Deferred > 0, outbox)
	p.figure("parked", counted(parked), false, p.q.h.at("/parked", "in", s.Source))
	p.figure("dead", counted(dead), dead > 0, p.q.h.at("/dead/groups", "in", s.Source))
	if len(s.Sagas) > 0 {
		var stuck, failing int64
		for _, c := range s.Sagas {
			stuck, failing = stuck+c.Stuck, failing+c.Failing
		}
		p.figure("sagas stuck", counted(stuck), stuck > 0, p.q.h.at("/sagas", "in", s.Source, "stuck", "1"))
		p.figure("sagas retrying", counted(failing), false, p.q.h.at("/sagas", "in", s.Source, "failing", "1"))
	}
	p.figure("quarantine", number(apart), apart > 0, p.q.h.at("/quarantine", "in", s.Source))
	p.put("</dl>\n")
	s.plots(p)
	p.put("<p class=\"dim\">%d shards", s.Shards)
	for _, r := range s.Relays {
		p.put("; relay %s has %d", r.Owner, r.Shards)
	}
	if s.Free > 0 {
		p.put("; %d have no relay", s.Free)
	}
	p.put(" · ")
	p.link("its shards", "/outbox", "in", s.Source)
	p.put(" · ")
	p.link("what a doctor finds", "/doctor", "in", s.Source)
	p.put("</p>\n")
	if len(s.Consumers) > 0 {
		s.table(p)
	}
	p.put("</section>\n")
}

func (p *page) figure(what, is string, bad bool, to string) {
	class := ""
	if bad {
		class = ` class="bad"`
	}
	p.WriteString("<div" + class + ">")
	p.put("<dt>%s</dt><dd>", what)
	if to == "" {
		p.put("%s", is)
	} else {
		p.put(`<a href="%s">%s</a>`, to, is)
	}
	p.put("</dd></div>\n")
}

func gradeClass(g skald.Grade) string {
	switch g {
	case skald.Failed:
		return "bad"
	case skald.Doubtful:
		return "warn"
	}
	return "fine"
}

func (s *standing) table(p *page) {
	p.table("Consumers of %s", s.Source)
	p.put("<tr><th scope=\"col\">consumer</th><th scope=\"col\">topics</th><th scope=\"col\">heard</th><th scope=\"col\">got on</th><th scope=\"col\" class=\"n\">parked</th>" +
		"<th scope=\"col\" class=\"n\">dead</th><th scope=\"col\" class=\"n\">quarantine</th><th scope=\"col\" class=\"n\">open calls</th></tr>\n")
	for i := range s.Consumers {
		c := &s.Consumers[i]
		heard := "never"
		if c.HeardSeconds >= 0 {
			heard = ago(seconds(c.HeardSeconds)) + " ago"
		}
		p.put("<tr><td>")
		p.link(c.Name, "/consumer", "in", s.Source, "consumer", c.Name)
		p.put("</td><td>%s</td><td>%s</td><td>%s ago</td><td class=\"n\">", strings.Join(c.Topics, ", "), heard, ago(seconds(c.ProgressSeconds)))
		p.count(c.Parked, "/parked", s.Source, c.Name)
		p.put("</td><td class=\"n\">")
		p.count(c.Dead, "/dead/groups", s.Source, c.Name)
		p.put("</td><td class=\"n\">")
		p.count(c.Conflicts+c.TooOld, "/quarantine", s.Source, c.Name)
		p.put("</td><td class=\"n\">%s</td></tr>\n", number(c.Calls))
	}
	p.put("</table></div>\n")
}

func (p *page) count(n int64, path, source, consumer string) {
	if n == 0 {
		p.put("0")
		return
	}
	p.link(counted(n), path, "in", source, "consumer", consumer)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
