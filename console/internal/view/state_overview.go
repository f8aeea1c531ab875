// This file has the overview, the first page of the console.

package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console/internal/page"
)

// pageOfFinding returns the path and the filter of the page that lists the objects of a finding. The path is
// "" if there is no such page.
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

type overviewPage struct {
	Sources []page.SourceState `json:"sources"`
	Away    []page.Unreachable `json:"away"`
}

// Overview is the page of all sources.
func Overview(q *page.Request) (page.View, error) {
	got, away := page.Each(q.Context(), q.Sources, "",
		func(ctx context.Context, s *page.Source) (page.SourceState, error) { return s.State(ctx) })
	v := &overviewPage{Sources: []page.SourceState{}, Away: append([]page.Unreachable{}, away...)}
	for _, g := range got {
		v.Sources = append(v.Sources, g.Is)
	}
	return v, nil
}

func (*overviewPage) Heading() string { return "Overview" }
func (*overviewPage) Live()           {}

func (v *overviewPage) HTML(p *page.Page) {
	p.Away(v.Away)
	v.health(p)
	v.writeWaits(p)
	for i := range v.Sources {
		sourceHTML(p, &v.Sources[i])
	}
}

// health writes one line for all sources: all are healthy, or the names of those that need attention.
func (v *overviewPage) health(p *page.Page) {
	names := make([]string, 0, len(v.Sources))
	worst := skald.Doubtful
	for i := range v.Sources {
		s := &v.Sources[i]
		if len(s.Findings) == 0 {
			continue
		}
		if worst != skald.Failed {
			worst = s.Findings[0].Grade // findings are sorted, the worst first
		}
		names = append(names, fmt.Sprintf("%s (%s)", s.Source, s.Findings[0].Observed))
	}
	for _, a := range v.Away {
		worst = skald.Failed
		names = append(names, a.Source+" (does not answer)")
	}
	if len(names) == 0 {
		p.Put("<p class=\"note fine\" id=\"health\"><b>Healthy</b>: all services (%d).</p>\n", len(v.Sources))
		return
	}
	p.Put("<p class=\"note %s\" id=\"health\"><b>Look at %d of %d services</b>: %s.</p>\n",
		page.ClassOf(worst), len(names), len(v.Sources)+len(v.Away), strings.Join(names, "; "))
}

// longest is a long wait in a source, with the path of the page that shows more.
type longest struct {
	source, what, path string
	args               []string
	since              time.Duration
}

const mostLongest = 8 // the number of waits that the overview lists

// writeWaits writes the longest waits of all sources.
func (v *overviewPage) writeWaits(p *page.Page) {
	var all []longest
	for i := range v.Sources {
		s := &v.Sources[i]
		if s.Oldest > 0 {
			all = append(all, longest{s.Source, "a message to be published", "/outbox",
				[]string{"in", s.Source}, s.Oldest})
		}
		for j := range s.Consumers {
			if c := &s.Consumers[j]; c.Parked > 0 {
				all = append(all, longest{s.Source, "a parked message of " + c.Name, "/parked",
					[]string{"in", s.Source, "consumer", c.Name}, page.Seconds(c.ParkedSeconds)})
			}
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b longest) int { return cmp.Compare(b.since, a.since) })
	p.Put("<section class=\"card\">\n<h2>Waits longest</h2>\n")
	p.Table("The longest waits, in all sources")
	p.Heads("for", "source", "what")
	for _, w := range all[:min(mostLongest, len(all))] {
		p.Put("<tr><td>%s</td><td>%s</td><td>", page.Ago(w.since), w.source)
		p.Link(w.what, w.path, w.args...)
		p.Put("</td></tr>\n")
	}
	p.Put("</table></div>\n</section>\n")
}

func sourceHTML(p *page.Page, s *page.SourceState) {
	p.Put("<section class=\"card\">\n<h2>%s</h2>\n", s.Source)
	for _, f := range s.Findings {
		p.Put("<p class=\"note %s\"><b>%s</b> %s. ", page.ClassOf(f.Grade), f.Name, f.Observed)
		if path, filter := pageOfFinding(f.Name); path != "" {
			p.Link("Look", path, append([]string{"in", s.Source}, filter...)...)
		}
		p.Put(" <span class=\"dim\">%s</span></p>\n", f.Remedy)
	}
	about := ""
	if !s.Exact {
		about = "about "
	}
	var parked, dead, quarantined int64
	for _, c := range s.Consumers {
		parked, dead, quarantined = parked+c.Parked, dead+c.Dead, quarantined+c.Conflicts+c.TooOld
	}
	p.Put("<dl class=\"figures\">\n")
	outbox := p.At("/outbox", "in", s.Source)
	p.Figure("to be published", about+page.Number(s.Pending), s.Oldest > time.Minute, outbox)
	p.Figure("oldest", page.Ago(s.Oldest), s.Oldest > time.Minute, "")
	p.Figure("deferred", page.Number(s.Deferred), s.Deferred > 0, outbox)
	p.Figure("parked", page.Counted(parked), false, p.At("/parked", "in", s.Source))
	p.Figure("dead", page.Counted(dead), dead > 0, p.At("/dead/groups", "in", s.Source))
	if len(s.Sagas) > 0 {
		var stuck, failing int64
		for _, c := range s.Sagas {
			stuck, failing = stuck+c.Stuck, failing+c.Failing
		}
		p.Figure("sagas stuck", page.Counted(stuck), stuck > 0, p.At("/sagas", "in", s.Source, "stuck", "1"))
		p.Figure("sagas retrying", page.Counted(failing), false,
			p.At("/sagas", "in", s.Source, "failing", "1"))
	}
	p.Figure("quarantine", page.Number(quarantined), quarantined > 0, p.At("/quarantine", "in", s.Source))
	p.Put("</dl>\n")
	plots(p, s)
	p.Put("<p class=\"dim\">%d shards", s.Shards)
	for _, r := range s.Relays {
		p.Put("; relay %s has %d", r.Owner, r.Shards)
	}
	if s.Free > 0 {
		p.Put("; %d have no relay", s.Free)
	}
	p.Put(" · ")
	p.Link("its shards", "/outbox", "in", s.Source)
	p.Put(" · ")
	p.Link("doctor", "/doctor", "in", s.Source)
	p.Put("</p>\n")
	if len(s.Consumers) > 0 {
		consumersTable(p, s)
	}
	p.Put("</section>\n")
}

func consumersTable(p *page.Page, s *page.SourceState) {
	p.Table("Consumers of %s", s.Source)
	p.Put("<tr><th scope=\"col\">consumer</th><th scope=\"col\">topics</th><th scope=\"col\">heartbeat</th><th scope=\"col\">progress</th><th scope=\"col\" class=\"n\">parked</th>" +
		"<th scope=\"col\" class=\"n\">dead</th><th scope=\"col\" class=\"n\">quarantine</th><th scope=\"col\" class=\"n\">open calls</th></tr>\n")
	for i := range s.Consumers {
		c := &s.Consumers[i]
		heard := "never"
		if c.HeardSeconds >= 0 {
			heard = page.Ago(page.Seconds(c.HeardSeconds)) + " ago"
		}
		p.Put("<tr><td>")
		p.Link(c.Name, "/consumer", "in", s.Source, "consumer", c.Name)
		p.Put("</td><td>%s</td><td>%s</td><td>%s ago</td><td class=\"n\">", strings.Join(c.Topics, ", "),
			heard, page.Ago(page.Seconds(c.ProgressSeconds)))
		countLink(p, c.Parked, "/parked", s.Source, c.Name)
		p.Put("</td><td class=\"n\">")
		countLink(p, c.Dead, "/dead/groups", s.Source, c.Name)
		p.Put("</td><td class=\"n\">")
		countLink(p, c.Conflicts+c.TooOld, "/quarantine", s.Source, c.Name)
		p.Put("</td><td class=\"n\">%s</td></tr>\n", page.Number(c.Calls))
	}
	p.Put("</table></div>\n")
}

func countLink(p *page.Page, n int64, path, source, consumer string) {
	if n == 0 {
		p.Put("0")
		return
	}
	p.Link(page.Counted(n), path, "in", source, "consumer", consumer)
}
