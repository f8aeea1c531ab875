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

// Broker examines a broker. It returns the retention of each topic for Windows. It leaves out topics for
// which the broker reports no retention.
func (d *Doctor) Broker(ctx context.Context, b broker.Broker) map[string]time.Duration {
	const about = "broker"
	keeps := map[string]time.Duration{}
	if _, err := b.Incarnation(ctx); err != nil && !errors.Is(err, broker.ErrNoTopic) {
		d.Failed(about, "connection", err)
		return keeps
	}
	d.Add(about, "connection", skald.Fine, "the broker answers", "")
	d.secure(about, b)
	d.checkTopics(ctx, b)
	d.queues(ctx, b)
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

// waiting reads the lag of each consumer of the database. If it cannot read a lag, it adds a warning and no
// failed finding, because the broker itself works.
func (d *Doctor) waiting(ctx context.Context, b broker.Broker) {
	d.lag = map[string]map[string]int64{}
	for _, c := range d.consumers {
		if !d.matches(c.Name) || len(c.Topics) == 0 {
			continue
		}
		lag, err := b.Lag(ctx, c.Name, c.Topics...)
		if err != nil {
			d.Add("broker", "lag of "+c.Name, skald.Doubtful, err.Error(), "if a right is missing, give this user "+
				"the rights of a consumer, or run doctor as a user that has them; otherwise correct the URL of the broker")
			continue
		}
		d.lag[c.Name] = lag
	}
}

// checkTopics adds a finding for each topic that is absent or unusable.
func (d *Doctor) checkTopics(ctx context.Context, b broker.Broker) {
	if len(d.Topics) == 0 {
		return
	}
	missing, err := b.CheckTopics(ctx, d.Topics...)
	if err != nil {
		d.Failed("broker", "topics", err)
		return
	}
	for _, what := range missing {
		d.Add("broker", "topics", skald.Failed, what, migrate(d.Topics, d.Consumer)+
			"; or correct the topic names")
	}
	if len(missing) == 0 {
		d.Add("broker", "topics", skald.Fine, strings.Join(d.Topics, ", ")+
			": they exist, and have the settings that Skald needs", "")
	}
}

// migrate returns the remedy that creates topics, and the queues of a group, if it is not empty.
func migrate(topics []string, group string) string {
	run := "run: skald migrate --broker URL"
	for _, topic := range topics {
		run += " --topic " + shortlog.Shell(topic)
	}
	if group != "" {
		run += " --group " + shortlog.Shell(group)
	}
	return run
}

// queues checks the queues of each group, if the broker needs queues for groups. It adds a warning for a
// topic if no group has all its queues for the topic. A client cannot find out whether other queues are
// bound to the topic.
func (d *Doctor) queues(ctx context.Context, b broker.Broker) {
	checker, ok := b.(groupChecker)
	if !ok {
		return
	}
	groups := d.groups()
	if d.Consumer != "" && len(groups) == 0 {
		d.Add("broker", "queues of "+d.Consumer, skald.Doubtful,
			"its topics are not known, so its queues were not checked", "give --topic TOPIC")
	}
	var read []string
	for _, g := range groups {
		there, err := b.Topics(ctx, g.Topics...)
		if err == nil && len(there) == 0 {
			continue // CheckTopics reports it, or the group reads another broker
		}
		name := "queues of " + g.Name
		var missing []string
		if err == nil {
			missing, err = checker.CheckGroup(ctx, g)
		}
		switch {
		case err != nil:
			d.Add("broker", name, skald.Doubtful, err.Error(),
				"give this user the rights of a consumer, or run doctor as a user that has them")
		case len(missing) > 0:
			d.Add("broker", name, skald.Failed, strings.Join(missing, "; ")+
				": messages that are published meanwhile do not reach this group", migrate(g.Topics, g.Name))
		default:
			d.Add("broker", name, skald.Fine, "they exist", "")
			read = append(read, g.Topics...)
		}
	}
	there, err := b.Topics(ctx, d.Topics...)
	for _, topic := range d.Topics {
		if _, exists := there[topic]; err == nil && exists && !slices.Contains(read, topic) {
			d.Add("broker", "queues of topic "+topic, skald.Doubtful,
				"no known consumer has a queue for it, and clients cannot read other bindings: "+
					"without a queue its messages are deferred, or dropped",
				"give --consumer GROUP; or see rabbitmqctl list_bindings; or "+migrate([]string{topic}, "GROUP"))
		}
	}
}

// groups returns the selected consumers of the database as groups. It omits consumers without a heartbeat
// for RetiredAfter. It adds Doctor.Topics to the topics of Doctor.Consumer.
func (d *Doctor) groups() (out []broker.Group) {
	for _, c := range d.consumers {
		if d.matches(c.Name) && c.Name != d.Consumer && len(c.Topics) > 0 && c.LastHeartbeat <= RetiredAfter {
			out = append(out, broker.Group{Name: c.Name, Topics: c.Topics})
		}
	}
	if d.Consumer == "" {
		return out
	}
	own := broker.Group{Name: d.Consumer, Topics: slices.Clone(d.Topics)}
	for _, c := range d.consumers {
		if c.Name == d.Consumer {
			own.Topics = append(own.Topics, c.Topics...)
		}
	}
	slices.Sort(own.Topics)
	if own.Topics = slices.Compact(own.Topics); len(own.Topics) > 0 {
		out = append(out, own)
	}
	return out
}

// groupChecker is a broker that needs objects for each group. RabbitMQ needs queues, for example.
type groupChecker interface {
	CheckGroup(ctx context.Context, g broker.Group) (missing []string, err error)
}

// MissingTopics returns a description of each topic that is absent or unusable. For a broker that needs
// objects for each group, it also describes the absent objects.
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
