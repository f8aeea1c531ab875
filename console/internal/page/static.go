package page

import (
	"embed"
	"net/http"
	"path"
)

//go:embed static
var files embed.FS

// staticFile is an embedded file.
type staticFile struct {
	kind string
	text []byte
}

func (staticFile) Heading() string { return "" }

func (staticFile) HTML(*Page) {}

// Static returns the style, the script or the icon.
func Static(q *Request) (View, error) {
	name := path.Base(q.PathValue("name"))
	text, err := files.ReadFile("static/" + name)
	if err != nil {
		return nil, NewRefusal(http.StatusNotFound, "there is no %.40q", name)
	}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".json": "application/json", ".svg": "image/svg+xml"}
	return staticFile{kinds[path.Ext(name)], text}, nil
}

// OpenAPI returns the description of the JSON of all pages.
func OpenAPI(*Request) (View, error) {
	text, err := files.ReadFile("static/openapi.json")
	return staticFile{"application/json", text}, err
}
