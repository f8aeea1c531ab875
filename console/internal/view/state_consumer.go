package view

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/store"
)

// consumerPage has the positions of a consumer, and the orders of operators, such as a pause.
type consumerPage struct {
	Source     string         `json:"source"`
	Name       string         `json:"consumer"`
	Paused     *order         `json:"paused,omitempty"`
	Skipped    []skipped      `json:"skipped"`
	Partitions []partition    `json:"partitions"`
	At         *page.Consumer `json:"standing,omitempty"`
	from       *page.Source
}

type order struct {
	By  string    `json:"by"`
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

type skipped struct {
	Fingerprint string `json:"fingerprint"`
	order
}

type partition struct {
	Name     string    `json:"partition"`
	Position int64     `json:"position"`
	At       time.Time `json:"at"`
}

// Consumer is the page of one consumer.
func Consumer(q *page.Request) (page.View, error) {
	s, err := q.Source()
	if err != nil {
		return nil, err
	}
	name := q.Arg("consumer")
	if name == "" {
		return nil, page.NewRefusal(http.StatusBadRequest, "give consumer=NAME")
	}
	return page.One(q, s, func(ctx context.Context, s *page.Source) (*consumerPage, error) {
		v, err := readConsumer(ctx, s, name)
		if err != nil {
			return v, err
		}
		now, err := s.State(ctx)
		if i := slices.IndexFunc(now.Consumers,
			func(c page.Consumer) bool { return c.Name == name }); i >= 0 {
			v.At = &now.Consumers[i]
		}
		if v.At == nil && len(v.Partitions) == 0 {
			return v, page.NewRefusal(http.StatusNotFound, "%s has no consumer %.100q", s.Name, name)
		}
		return v, err
	})
}

func readConsumer(ctx context.Context, s *page.Source, name string) (*consumerPage, error) {
	v := &consumerPage{Source: s.Name, Name: name, Skipped: []skipped{}, Partitions: []partition{}, from: s}
	known, err := s.DB.SyncConsumer(ctx, store.SyncRequest{Consumer: name})
	if err != nil {
		return v, err
	}
	orders := control.Read(known.Checkpoints)
	if o := orders.Paused; o != nil {
		v.Paused = &order{o.Who, o.Why, o.At}
	}
	for _, fingerprint := range slices.Sorted(maps.Keys(orders.Skipped)) {
		o := orders.Skipped[fingerprint]
		v.Skipped = append(v.Skipped, skipped{fingerprint, order{o.Who, o.Why, o.At}})
	}
	for i := range known.Checkpoints {
		c := &known.Checkpoints[i]
		if !control.Is(c) {
			v.Partitions = append(v.Partitions, partition{c.Partition, c.Position, c.At})
		}
	}
	return v, nil
}

// ordersHash reads the orders to a consumer, and returns their hash. A plan uses it to detect a change.
func ordersHash(ctx context.Context, s *page.Source, name string) (string, error) {
	v, err := readConsumer(ctx, s, name)
	return v.ordersHash(), err
}

// ordersHash returns a hash of the orders.
func (v *consumerPage) ordersHash() string {
	text := ""
	if v.Paused != nil {
		text = fmt.Sprint(*v.Paused)
	}
	sum := sha256.Sum256([]byte(text + fmt.Sprint(v.Skipped)))
	return hex.EncodeToString(sum[:8])
}

func (v *consumerPage) Heading() string { return "Consumer " + v.Name }
func (*consumerPage) Live()             {}

func (v *consumerPage) HTML(p *page.Page) {
	p.Put("<p class=\"dim\">%s</p>\n", v.Source)
	if v.Paused != nil {
		p.Put("<p class=\"note warn\">Paused by %s: %s. Since ", v.Paused.By, v.Paused.Why)
		p.When(v.Paused.At)
		p.Put("</p>\n")
	}
	p.Put("<section class=\"card\">\n")
	if c := v.At; c != nil {
		p.Put("<dl class=\"figures\">\n")
		p.Figure("parked", page.Counted(c.Parked), false,
			p.At("/parked", "in", v.Source, "consumer", v.Name))
		p.Figure("dead", page.Counted(c.Dead), c.Dead > 0,
			p.At("/dead/groups", "in", v.Source, "consumer", v.Name))
		p.Figure("quarantine", page.Number(c.Conflicts+c.TooOld), c.Conflicts+c.TooOld > 0,
			p.At("/quarantine", "in", v.Source, "consumer", v.Name))
		heard := "never"
		if c.HeardSeconds >= 0 {
			heard = page.Ago(page.Seconds(c.HeardSeconds)) + " ago"
		}
		p.Figure("heard", heard, c.HeardSeconds > 180, "")
		p.Put("</dl>\n")
	}
	verb := "pause"
	if v.Paused != nil {
		verb = "resume"
	}
	v.button(p, verb, "")
	if v.Paused == nil {
		p.Put("<p class=\"dim\">Resume also closes open breakers of its processes:</p>\n")
		v.button(p, "resume", "")
	}
	p.Put("</section>\n<section class=\"card\"><h2>Failures that are skipped</h2>\n")
	if len(v.Skipped) == 0 {
		p.Put("<p class=\"dim\">None. Dead letters are listed with their fingerprints.</p>\n")
	}
	for i := range v.Skipped {
		s := &v.Skipped[i]
		p.Put("<p><code>%s</code> by %s: %s, ", s.Fingerprint, s.By, s.Why)
		p.When(s.At)
		p.Put("</p>\n")
		v.button(p, "unskip", s.Fingerprint)
	}
	if p.May(page.Act) {
		p.Put("<form class=\"filter\" method=\"get\" action=\"%s\">", p.At("/act"))
		p.Hidden("verb", "skip", "in", v.Source, "consumer", v.Name)
		p.Put("<label>fingerprint <input name=\"fingerprint\" required pattern=\"[0-9a-f]{12}\" maxlength=\"12\"></label><button>Skip …</button></form>\n")
	}
	p.Put("</section>\n")
	v.positions(p)
}

func (v *consumerPage) button(p *page.Page, verb, fingerprint string) {
	typed := verb
	if verb == "unskip" {
		typed = "resume"
	}
	p.Put("<p class=\"verbs\">")
	if p.May(page.Act) {
		p.Put(`<a class="button" href="%s">%s …</a> `, p.At("/act", "verb", verb, "in", v.Source, "consumer",
			v.Name, "fingerprint", fingerprint), page.Title(verb))
	}
	p.Put("<code>%s</code></p>\n", page.ConsumerCommand(v.from.At, typed, "consumer", v.Name, "fingerprint",
		fingerprint))
}

func (v *consumerPage) positions(p *page.Page) {
	if len(v.Partitions) == 0 {
		return
	}
	p.Put("<section class=\"card\"><h2>Positions</h2>\n")
	p.Table("Positions")
	p.Put("<tr><th scope=\"col\">partition</th><th scope=\"col\" class=\"n\">position</th>" +
		"<th scope=\"col\">written</th></tr>\n")
	for i := range v.Partitions {
		if i == page.Rows {
			p.Put("<tr><td colspan=\"3\">and %d others</td></tr>", len(v.Partitions)-i)
			break
		}
		s := &v.Partitions[i]
		p.Put("<tr><td>%s</td><td class=\"n\">%d</td><td>", s.Name, s.Position)
		p.When(s.At)
		p.Put("</td></tr>\n")
	}
	p.Put("</table></div></section>\n")
}
