package console

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/skald-go/skald/console/internal/guard"
	"github.com/skald-go/skald/console/internal/spell"
)

func (v *messagePage) HTML(p *page) {
	p.put("<p class=\"dim\">")
	p.link(v.Source, "/", "in", v.Source)
	p.put(" · consumer ")
	p.link(v.consumer, "/consumer", "in", v.Source, "consumer", v.consumer)
	p.put("</p>\n<section class=\"card\">\n")
	p.put("<dl class=\"rows\">\n")
	p.row("state", v.State)
	p.row("source", v.id.Source)
	if v.Kept == nil {
		p.row("reason", v.Reason)
		p.put("</dl>\n<p>It is neither parked nor a dead letter. The consumer says: <b>%s</b>.</p>\n", v.Outcome)
	} else {
		v.facts(p)
		p.put("</dl>\n")
		v.verbs(p)
	}
	p.put("</section>\n")
	if v.Kept != nil {
		v.errors(p)
		v.payload(p)
	}
	if len(v.Apart) > 0 {
		p.put("<section class=\"card\"><h2>In quarantine under this identity</h2>\n")
		apartTable(p, v.Apart)
		p.put("</section>\n")
	}
	if len(v.Audit) > 0 {
		p.put("<section class=\"card\"><h2>What operators did</h2>\n")
		auditTable(p, v.Audit)
		p.put("</section>\n")
	}
}

func (v *messagePage) facts(p *page) {
	m := v.Kept
	p.row("type", m.Type)
	p.row("topic", m.Topic)
	if key := spell.Key(m.Key); key != "" {
		p.put("<div><dt>key</dt><dd>")
		p.link(key, "/story", "q", key)
		p.put("</dd></div>\n")
	}
	p.row("subject", m.Subject)
	if m.CorrelationID != "" {
		p.put("<div><dt>correlation</dt><dd>")
		p.link(m.CorrelationID, "/story", "q", m.CorrelationID)
		p.put("</dd></div>\n")
	}
	p.row("caused by", m.CausationID)
	p.row("trace", m.TraceParent)
	p.put("<div><dt>kept since</dt><dd>")
	p.when(m.Since)
	p.put("</dd></div>\n")
	if m.Time != nil {
		p.put("<div><dt>published</dt><dd>")
		p.when(*m.Time)
		p.put("</dd></div>\n")
	}
	p.put("<div><dt>attempts</dt><dd>%d</dd></div>\n", m.Attempts)
	if m.DueSeconds > 0 && m.DeadAt == nil {
		p.row("tried again in", spell.Ago(spell.Seconds(m.DueSeconds)))
	}
	if m.Waiting {
		p.row("waits", "another message of its key comes first")
	}
	if m.HoldsKey {
		p.row("blocks its key", "the messages of its key after it wait")
	}
	p.row("fault of its envelope", m.Fault)
	p.row("at the broker", m.Partition)
	p.row("program", m.Version)
	if v.Call != nil {
		p.put("<div><dt>call outside</dt><dd>%s since ", v.Call.Key)
		p.when(v.Call.Since)
		if !v.Call.Known {
			p.put(": it is not known what became of it")
		}
		p.put("</dd></div>\n")
	}
	v.leads(p)
}

// leads are links, filled in.
func (v *messagePage) leads(p *page) {
	trace := ""
	if parts := strings.Split(v.Kept.TraceParent, "-"); len(parts) == 4 {
		trace = parts[1]
	}
	fill := strings.NewReplacer("{traceparent}", url.QueryEscape(v.Kept.TraceParent), "{trace}", url.QueryEscape(trace), "{id}", url.QueryEscape(v.id.ID),
		"{key}", url.QueryEscape(string(v.Kept.Key)), "{type}", url.QueryEscape(v.Kept.Type), "{consumer}", url.QueryEscape(v.consumer))
	for _, text := range slices.Sorted(maps.Keys(v.links)) {
		if trace == "" && strings.Contains(v.links[text], "{trace") {
			continue // it has none to lead to
		}
		p.put("<div><dt>link</dt><dd><a href=\"%s\" rel=\"noreferrer\">%s</a></dd></div>\n", fill.Replace(v.links[text]), text)
	}
}

func (v *messagePage) verbs(p *page) {
	names := []string{"release"}
	if v.sel.Dead {
		names = []string{"redrive", "drop"}
	}
	if v.sel.Dead && v.Kept.Kind == kindRejected {
		names = []string{"drop"} // it was answered: to take it again changes nothing
	}
	for _, name := range names {
		p.put("<p class=\"verbs\">")
		if p.may(guard.Act) {
			p.put(`<a class="button" href="%s">%s …</a> `, p.at("/act", "verb", name, "in", v.Source, "consumer", v.consumer, "source", v.id.Source, "id", v.id.ID, "seen", v.Seen), verbTitle(name))
		} else {
			p.put(`<span class="button off" title="you may not act">%s</span> `, verbTitle(name))
		}
		p.put("<code>%s</code></p>\n", commandOf(v.at.At, name, &v.sel, v.Call != nil && !v.Call.Known))
	}
}

func (v *messagePage) errors(p *page) {
	m := v.Kept
	if m.LastError == "" && m.Stack == "" {
		return
	}
	p.put("<section class=\"card\">\n<h2>How it failed</h2>\n")
	if m.Kind != "" {
		p.put("<p>A dead letter of the kind <b>%s</b>; others that failed so: ", m.Kind)
		p.link(m.Fingerprint, "/dead", "in", v.Source, "consumer", v.consumer, "fingerprint", m.Fingerprint)
		p.put("</p>\n")
	}
	if m.LastAt != nil {
		p.put("<p>Last attempt ")
		p.when(*m.LastAt)
		p.put(" on %s:</p>\n<pre>%s</pre>\n", m.LastHost, m.LastError)
	} else {
		p.put("<pre>%s</pre>\n", m.LastError)
	}
	if m.FirstError != "" && m.FirstError != m.LastError {
		p.put("<p>The first attempt failed otherwise:</p>\n<pre>%s</pre>\n", m.FirstError)
	}
	if m.Stack != "" {
		p.put("<details><summary>Stack</summary><pre>%s</pre></details>\n", m.Stack)
	}
	p.put("</section>\n")
}

func (v *messagePage) payload(p *page) {
	p.put("<section class=\"card\">\n<h2>Payload</h2>\n<p>%s of %s", spell.Bytes(v.Bytes), v.Kept.ContentType)
	if len(v.Headers) > 0 {
		p.put("; headers: %s", strings.Join(v.Headers, ", "))
	}
	p.put("</p>\n")
	switch {
	case v.Shown != nil:
		if v.Shown.Cut {
			p.put("<p class=\"note warn\">Only the first %s are shown.</p>\n", spell.Bytes(mostShown))
		}
		p.put("<pre>%s</pre>\n", v.Shown.Data)
		for _, h := range v.Shown.Headers {
			if h.Hidden {
				p.put("<p>%s: <span class=\"dim\">hidden, since Options.MaskHeader is not set</span></p>\n", h.Name)
				continue
			}
			p.put("<p>%s: <code>%s</code></p>\n", h.Name, h.Value)
		}
	case !p.may(guard.Payloads):
		p.put("<p class=\"dim\">Hidden: you lack the right to see payloads.</p>\n")
	default:
		p.put("<form method=\"post\" action=\"%s\">", p.at("/message/payload"))
		p.hidden("token", p.q.Token, "in", v.Source, "consumer", v.consumer, "source", v.id.Source, "id", v.id.ID)
		p.put("<p>Hidden. <button>Show it</button> <span class=\"dim\">It is noted who looked.</span></p></form>\n")
	}
	p.put("</section>\n")
}
