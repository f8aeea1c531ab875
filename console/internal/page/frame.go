package page

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"
)

func (q *Request) framed(v View) []byte {
	p := &Page{Request: q}
	title := v.Heading()
	p.Put("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
	p.Put("<title>%s · Skald</title>\n", title)
	p.Put(`<link rel="stylesheet" href="%s"><link rel="icon" href="%s"><script src="%s" defer></script>`,
		q.At("/static/style.css", "v", stamp("style.css")),
		q.At("/static/icon.svg"), q.At("/static/live.js", "v", stamp("live.js")))
	p.Put("\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">To the content</a>\n<header>\n<a class=\"brand\" href=\"%s\">Skald</a>\n<nav aria-label=\"Pages\">", q.At("/"))
	for _, l := range navigation() {
		here := ""
		if q.URL.Path == q.base+l[0] {
			here = ` aria-current="page"`
		}
		p.WriteString("<a" + here)
		p.Put(` href="%s">%s</a>`, q.At(l[0]), l[1])
	}
	p.Put("</nav>\n<form action=\"%s\" role=\"search\"><input type=\"search\" name=\"q\" value=\"%s\" placeholder=\"key, id or correlation\" "+
		"aria-label=\"Search by key, id or correlation\"><button>Search</button></form>\n", q.At("/story"),
		q.URL.Query().Get("q"))
	p.Put("</header>\n<main id=\"main\" tabindex=\"-1\"")
	// The script must not refresh the answer to a form, because the URL of the form shows another page.
	if _, live := v.(interface{ Live() }); live && q.Method == http.MethodGet {
		p.Put(" data-live")
	}
	p.Put(">\n<h1>%s</h1>\n", title)
	v.HTML(p)
	p.Put("</main>\n")
	if q.Who.May == 0 { // a refused request has no user for the footer
		p.Put("</body>\n</html>\n")
		return p.Bytes()
	}
	p.Put("<footer><p>%s, who may %s. Read ", q.Who.Name, q.Who.May)
	p.When(time.Now())
	p.Put(
		` <label class="live" hidden><input type="checkbox" id="live" checked> refresh</label></p></footer>` +
			"\n</body>\n</html>\n")
	return p.Bytes()
}

// stamp returns a hash of a file for its URL, so that browsers load a changed file.
func stamp(name string) string {
	text, _ := files.ReadFile("static/" + name) // cannot fail: the file is embedded
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// Away writes a warning for each source that did not answer.
func (p *Page) Away(list []Unreachable) {
	for _, a := range list {
		p.Put(`<p class="note bad" role="alert"><b>%s</b> is unavailable: %s. The other sources are shown.</p>`+"\n",
			a.Source, a.Why)
	}
}

// None writes a note that the list is empty.
func (p *Page) None() {
	p.Put("<p class=\"note fine\">Nothing found in the sources that answered.</p>\n")
}

// navigation returns the paths and names of the main pages.
func navigation() [][2]string {
	return [][2]string{
		{"/", "Overview"}, {"/sagas", "Sagas"}, {"/flows", "Flows"}, {"/dead/groups", "Dead"},
		{"/parked", "Parked"},
		{"/quarantine", "Quarantine"}, {"/calls", "Calls"}, {"/outbox", "Outbox"}, {"/locks", "Locks"},
		{"/definitions", "Definitions"}, {"/runs", "Actions"}, {"/audit", "Audit"},
	}
}
