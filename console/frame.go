package console

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/skald-go/skald/console/internal/source"
)

func (q *request) framed(v view) []byte {
	p := &page{q: q}
	title := v.Heading()
	p.put("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
	p.put("<title>%s · Skald</title>\n", title)
	p.put(`<link rel="stylesheet" href="%s"><link rel="icon" href="%s"><script src="%s" defer></script>`, q.at("/static/style.css", "v", stamp("style.css")),
		q.at("/static/icon.svg"), q.at("/static/live.js", "v", stamp("live.js")))
	p.put("\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">To the content</a>\n<header>\n<a class=\"brand\" href=\"%s\">Skald</a>\n<nav aria-label=\"Pages\">", q.at("/"))
	for _, l := range navigation() {
		here := ""
		if q.URL.Path == q.base+l[0] {
			here = ` aria-current="page"`
		}
		p.WriteString("<a" + here)
		p.put(` href="%s">%s</a>`, q.at(l[0]), l[1])
	}
	p.put("</nav>\n<form action=\"%s\" role=\"search\"><input type=\"search\" name=\"q\" value=\"%s\" placeholder=\"key, id or correlation\" "+
		"aria-label=\"Search by key, id or correlation\"><button>Search</button></form>\n", q.at("/story"), q.URL.Query().Get("q"))
	p.put("</header>\n<main id=\"main\" tabindex=\"-1\"")
	if _, live := v.(interface{ Live() }); live && q.Method == http.MethodGet { // what a form answered is not at its URL
		p.put(" data-live")
	}
	p.put(">\n<h1>%s</h1>\n", title)
	v.HTML(p)
	p.put("</main>\n")
	if q.Who.May == 0 { // it was refused
		p.put("</body>\n</html>\n")
		return p.Bytes()
	}
	p.put("<footer><p>%s, who may %s. Read ", q.Who.Name, q.Who.May)
	p.when(time.Now())
	p.put(` <label class="live" hidden><input type="checkbox" id="live" checked> refresh</label></p></footer>` + "\n</body>\n</html>\n")
	return p.Bytes()
}

// stamp is of a file: its URL changes with it.
func stamp(name string) string {
	text, _ := files.ReadFile("static/" + name) // embedded
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// away names the sources that did not answer.
func (p *page) away(list []source.Away) {
	for _, a := range list {
		p.put(`<p class="note bad" role="alert"><b>%s</b> is away: %s. The others are shown.</p>`+"\n", a.Source, a.Why)
	}
}

// navigation is the pages that each page leads to, and their names.
func navigation() [][2]string {
	return [][2]string{
		{"/", "Overview"}, {"/sagas", "Sagas"}, {"/flows", "Flows"}, {"/dead/groups", "Dead"}, {"/parked", "Parked"},
		{"/quarantine", "Quarantine"}, {"/calls", "Calls"}, {"/outbox", "Outbox"}, {"/locks", "Locks"},
		{"/definitions", "Definitions"}, {"/runs", "Actions"}, {"/audit", "Audit"},
	}
}
