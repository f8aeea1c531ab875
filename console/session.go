package console

import (
	"strings"

	"github.com/skald-go/skald/console/internal/page"
)

// sessionPage describes the user. Programs read the token for forms from this page.
type sessionPage struct {
	Name  string   `json:"name"`
	May   []string `json:"may"`
	Token string   `json:"token"` // for the field token or the header X-Skald-Token of a POST
}

func session(q *page.Request) (page.View, error) {
	return &sessionPage{q.Who.Name, strings.Split(q.Who.May.String(), ", "), q.Token}, nil
}

func (*sessionPage) Heading() string { return "Who you are" }

func (v *sessionPage) HTML(p *page.Page) {
	p.Put("<p>You are <b>%s</b>, and may %s.</p>\n", v.Name, strings.Join(v.May, ", "))
}
