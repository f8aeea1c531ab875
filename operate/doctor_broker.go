package operate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/shortlog"
)

// Broker examines a broker. It returns the broker's retention of each topic, as far as the broker reports
// it: see Windows.
func (d *Doctor) Broker(ctx context.Context, b broker.Broker) map[string]time.Duration {
	const about = "broker"
	keeps := map[string]time.Duration{}
	if _, err := b.Incarnation(ctx); err != nil && !errors.Is(err, broker.ErrNoTopic) {
		d.Failed(about, "connection", err)
		return keeps
	}
	d.Say(about, "connection", skald.Fine, "the broker answers", "")
	d.secure(about, b)
	d.missing(ctx, b)
	d.waiting(ctx, b)
	list, err := b.Examine(ctx, d.Topics...)
	if err != nil && !errors.Is(err, broker.ErrUnsupported) {
		d.Failed(about, "settings", err)
	}
	d.take(about, list)
	if len(d.Topics) == 0 {
		return keeps
	}
	reported, err := b.Keeps(ctx, d.Topics...)
	switch {
	case err == nil:
		keeps = reported
	case !errors.Is(err, broker.ErrUnsupported):
		d.Failed(about, "retention", err)
	}
	return keeps
}

// waiting reads the lag of each consumer of the database. A lag that cannot be read is a warning, because
// it is no fault of the broker.
func (d *Doctor) waiting(ctx context.Context, b broker.Broker) {
	d.lag = map[string]map[string]int64{}
	for _, c := range d.consumers {
		if !d.matches(c.Name) || len(c.Topics) == 0 {
			continue
		}
		lag, err := b.Lag(ctx, c.Name, c.Topics...)
		if err != nil {
			d.Say("broker", "lag of "+c.Name, skald.Doubtful, err.Error(),
				"give this user the rights of a consumer, or run doctor as a user that has them")
			continue
		}
		d.lag[c.Name] = lag
	}
}

// missing adds a finding for each topic, or object that a group needs, that is absent or unusable.
func (d *Doctor) missing(ctx context.Context, b broker.Broker) {
	if len(d.Topics) == 0 {
		return
	}
	var groups []string
	if d.Consumer != "" {
		groups = []string{d.Consumer}
	}
	missing, err := MissingTopics(ctx, b, d.Topics, groups)
	if err != nil {
		d.Failed("broker", "topics", err)
		return
	}
	run := "run: skald migrate --broker URL"
	for _, topic := range d.Topics {
		run += " --topic " + shortlog.Shell(topic)
	}
	if d.Consumer != "" {
		run += " --group " + shortlog.Shell(d.Consumer)
	}
	for _, what := range missing {
		d.Say("broker", "topics", skald.Failed, what, run+"; or correct the topic names")
	}
	if len(missing) == 0 {
		d.Say("broker", "topics", skald.Fine, strings.Join(d.Topics, ", ")+
			": they exist, and have the settings that Skald needs", "")
	}
}

// groupChecker is a broker that needs objects for each group, as RabbitMQ needs queues.
type groupChecker interface {
	CheckGroup(ctx context.Context, g broker.Group) (missing []string, err error)
}

// MissingTopics describes each absent or unusable part of the topics and groups.
func MissingTopics(ctx context.Context, b broker.Broker, topics, groups []string) ([]string, error) {
	missing, err := b.CheckTopics(ctx, topics...)
	g, ok := b.(groupChecker)
	if err != nil || !ok {
		return missing, err
	}
	for _, name := range groups {
		more, err := g.CheckGroup(ctx, broker.Group{Name: name, Topics: topics})
		if err != nil {
			return nil, err
		}
		missing = append(missing, slices.DeleteFunc(more,
			func(s string) bool { return slices.Contains(missing, s) })...)
	}
	return missing, nil
}
