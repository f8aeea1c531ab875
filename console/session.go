package console

import "strings"

// A sessionPage says who asks: programs take the token from there.
type sessionPage struct {
	Name  string   `json:"name"`
	May   []string `json:"may"`
	Token string   `json:"token"` // of a POST, as the field token or the header X-Skald-Token
}

func session(q *request) (view, error) {
	return &sessionPage{q.Who.Name, strings.Split(q.Who.May.String(), ", "), q.Token}, nil
}

func (*sessionPage) Heading() string { return "Who you are" }

func (v *sessionPage) HTML(p *page) {
	p.put("<p>You are <b>%s</b>, and may %s.</p>\n", v.Name, strings.Join(v.May, ", "))
}

func openAPI(*request) (view, error) {
	text, err := files.ReadFile("static/openapi.json")
	return staticFile{"application/json", text}, err
}
