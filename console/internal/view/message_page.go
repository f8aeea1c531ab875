package view

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/store"
)

func (v *messagePage) HTML(p *page.Page) {
	p.Put("<p class=\"dim\">")
	p.Link(v.Source, "/", "in", v.Source)
	p.Put(" · consumer ")
	p.Link(v.consumer, "/consumer", "in", v.Source, "consumer", v.consumer)
	p.Put("</p>\n<section class=\"card\">\n")
	p.Put("<dl class=\"rows\">\n")
	p.Row("state", v.State)
	p.Row("source", v.id.Source)
	if v.Kept == nil {
		p.Row("reason", v.Reason)
		p.Put("</dl>\n<p>It is neither parked nor a dead letter. Its outcome at the consumer: <b>%s</b>.</p>\n",
			v.Outcome)
	} else {
		v.facts(p)
		p.Put("</dl>\n")
		v.verbs(p)
	}
	p.Put("</section>\n")
	if v.Kept != nil {
		v.errors(p)
		v.payload(p)
	}
	if len(v.Quarantined) > 0 {
		p.Put("<section class=\"card\"><h2>In quarantine under this identity</h2>\n")
		quarantineTable(p, v.Quarantined)
		p.Put("</section>\n")
	}
	if len(v.Audit) > 0 {
		p.Put("<section class=\"card\"><h2>What operators did</h2>\n")
		table(p, v.Audit)
		p.Put("</section>\n")
	}
}

func (v *messagePage) facts(p *page.Page) {
	m := v.Kept
	p.Row("type", m.Type)
	p.Row("topic", m.Topic)
	if key := page.Key(m.Key); key != "" {
		p.Put("<div><dt>key</dt><dd>")
		p.Link(key, "/story", "q", key)
		p.Put("</dd></div>\n")
	}
	p.Row("subject", m.Subject)
	if m.CorrelationID != "" {
		p.Put("<div><dt>correlation</dt><dd>")
		p.Link(m.CorrelationID, "/story", "q", m.CorrelationID)
		p.Put("</dd></div>\n")
	}
	p.Row("caused by", m.CausationID)
	p.Row("trace", m.TraceParent)
	p.Put("<div><dt>kept since</dt><dd>")
	p.When(m.Since)
	p.Put("</dd></div>\n")
	if m.Time != nil {
		p.Put("<div><dt>published</dt><dd>")
		p.When(*m.Time)
		p.Put("</dd></div>\n")
	}
	p.Put("<div><dt>attempts</dt><dd>%d</dd></div>\n", m.Attempts)
	if m.DueSeconds > 0 && m.DeadAt == nil {
		p.Row("tried again in", page.Ago(page.Seconds(m.DueSeconds)))
	}
	if m.Waiting {
		p.Row("waits", "another message of its key comes first")
	}
	if m.BlocksKey {
		p.Row("blocks its key", "the messages of its key after it wait")
	}
	p.Row("fault of its envelope", m.Fault)
	p.Row("at the broker", m.Partition)
	p.Row("program", m.Version)
	if v.Call != nil {
		p.Put("<div><dt>call outside</dt><dd>%s since ", v.Call.Key)
		p.When(v.Call.Since)
		if !v.Call.Known {
			p.Put(": its outcome is unknown")
		}
		p.Put("</dd></div>\n")
	}
	v.writeLinks(p)
}

// writeLinks writes the links of console.Options.Links.
func (v *messagePage) writeLinks(p *page.Page) {
	trace := ""
	if parts := strings.Split(v.Kept.TraceParent, "-"); len(parts) == 4 {
		trace = parts[1]
	}
	fill := strings.NewReplacer("{traceparent}", url.QueryEscape(v.Kept.TraceParent),
		"{trace}", url.QueryEscape(trace), "{id}", url.QueryEscape(v.id.ID),
		"{key}", url.QueryEscape(string(v.Kept.Key)), "{type}", url.QueryEscape(v.Kept.Type), "{consumer}",
		url.QueryEscape(v.consumer))
	for _, text := range slices.Sorted(maps.Keys(v.links)) {
		if trace == "" && strings.Contains(v.links[text], "{trace") {
			continue // the message has no trace
		}
		p.Put("<div><dt>link</dt><dd><a href=\"%s\" rel=\"noreferrer\">%s</a></dd></div>\n",
			fill.Replace(v.links[text]), text)
	}
}

func (v *messagePage) verbs(p *page.Page) {
	names := []string{"release"}
	if v.sel.Dead {
		names = []string{"redrive", "drop"}
	}
	if v.sel.Dead && v.Kept.Kind == failure.KindRejected {
		names = []string{"drop"} // the rejection was sent, so a redrive would change nothing
	}
	for _, name := range names {
		p.Put("<p class=\"verbs\">")
		if p.May(page.Act) {
			p.Put(`<a class="button" href="%s">%s …</a> `, p.At("/act", "verb", name, "in", v.Source,
				"consumer", v.consumer, "source", v.id.Source, "id", v.id.ID, "seen", v.Seen),
				page.Title(name))
		} else {
			p.Put(`<span class="button off" title="you may not act">%s</span> `, page.Title(name))
		}
		p.Put("<code>%s</code></p>\n", page.Command(v.at.At, name, &v.sel, v.Call != nil && !v.Call.Known))
	}
}

func (v *messagePage) errors(p *page.Page) {
	m := v.Kept
	if m.LastError == "" && m.Stack == "" {
		return
	}
	p.Put("<section class=\"card\">\n<h2>How it failed</h2>\n")
	if m.Kind != "" {
		p.Put("<p>A dead letter of the kind <b>%s</b>; others with the same failure: ", m.Kind)
		p.Link(m.Fingerprint, "/dead", "in", v.Source, "consumer", v.consumer, "fingerprint", m.Fingerprint)
		p.Put("</p>\n")
	}
	if m.LastAt != nil {
		p.Put("<p>Last attempt ")
		p.When(*m.LastAt)
		p.Put(" on %s:</p>\n<pre>%s</pre>\n", m.LastHost, m.LastError)
	} else {
		p.Put("<pre>%s</pre>\n", m.LastError)
	}
	v.failures(p)
	if m.Stack != "" {
		p.Put("<details><summary>Stack</summary><pre>%s</pre></details>\n", m.Stack)
	}
	p.Put("</section>\n")
}

// failures writes the failed attempts, if there are several.
func (v *messagePage) failures(p *page.Page) {
	all := v.Kept.Failures
	if len(all) < 2 {
		return
	}
	p.Table("Failed attempts")
	p.Put("<tr><th scope=\"col\">failed attempt</th><th scope=\"col\">host</th><th scope=\"col\">error</th></tr>\n")
	for i := range all {
		p.Put("<tr><td>")
		p.When(all[i].At)
		p.Put("</td><td>%s</td><td class=\"why\">%s</td></tr>\n", all[i].Host,
			page.Cut(page.FirstLine(all[i].Error), 300))
	}
	p.Put("</table></div>\n")
	if len(all) > store.MaxFailures {
		p.Put("<p class=\"dim\">The first attempt, and the last %d.</p>\n", store.MaxFailures)
	}
}

func (v *messagePage) payload(p *page.Page) {
	p.Put("<section class=\"card\">\n<h2>Payload</h2>\n<p>%s of %s", page.Bytes(v.Bytes), v.Kept.ContentType)
	if len(v.Headers) > 0 {
		p.Put("; headers: %s", strings.Join(v.Headers, ", "))
	}
	p.Put("</p>\n")
	switch {
	case v.Shown != nil:
		if v.Shown.Cut {
			p.Put("<p class=\"note warn\">Only the first %s are shown.</p>\n", page.Bytes(page.Most))
		}
		p.Put("<pre>%s</pre>\n", v.Shown.Data)
		for _, h := range v.Shown.Headers {
			if h.Hidden {
				p.Put("<p>%s: <span class=\"dim\">hidden, since Options.MaskHeader is not set</span></p>\n",
					h.Name)
				continue
			}
			p.Put("<p>%s: <code>%s</code></p>\n", h.Name, h.Value)
		}
	case !p.May(page.Payloads):
		p.Put("<p class=\"dim\">Hidden: you lack the right to see payloads.</p>\n")
	default:
		p.Put("<form method=\"post\" action=\"%s\">", p.At("/message/payload"))
		p.Hidden("token", p.Token, "in", v.Source, "consumer", v.consumer, "source", v.id.Source,
			"id", v.id.ID)
		p.Put("<p>Hidden. <button>Show it</button> <span class=\"dim\">Your name is recorded.</span></p></form>\n")
	}
	p.Put("</section>\n")
}
