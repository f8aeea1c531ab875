package console

import (
	"strings"

	"github.com/skald-go/skald/console/internal/page"
)

// A sessionPage says who asks: programs take the token from there.
type sessionPage struct {
	Name  string   `json:"name"`
	May   []string `json:"may"`
	Token string   `json:"token"` // of a POST, as the field token or the header X-Skald-Token
}

func session(q *page.Request) (page.View, error) {
	return &sessionPage{q.Who.Name, strings.Split(q.Who.May.String(), ", "), q.Token}, nil
}

func (*sessionPage) Heading() string { return "Who you are" }

func (v *sessionPage) HTML(p *page.Page) {
	p.Put("<p>You are <b>%s</b>, and may %s.</p>\n", v.Name, strings.Join(v.May, ", "))
}
