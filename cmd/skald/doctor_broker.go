package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
)

// broker looks at the broker, if one is given, and compares the windows. What cannot be a URL is an error.
func (d *doctor) broker(ctx context.Context) error {
	keeps := map[string]time.Duration{}
	if d.bus != "" {
		connect, err := place.Dial(d.bus)
		if err != nil {
			return err
		}
		keeps = d.atBroker(ctx, connect)
	}
	if d.brokerKeeps > 0 {
		for _, topic := range d.topics {
			keeps[topic] = d.brokerKeeps
		}
		if len(d.topics) == 0 {
			keeps[""] = d.brokerKeeps
		}
	}
	d.compare(keeps)
	return nil
}

// sensible refuses times and numbers that no comparison could go by: they would be passed over, or hide that marks go too early.
func (d *doctor) sensible(c *cobra.Command) error {
	if c.Flags().Changed("broker-keeps") && d.brokerKeeps <= 0 {
		return &place.UsageError{What: fmt.Sprintf("--broker-keeps is a time above 0, not %v: leave it out where the broker is to be asked", d.brokerKeeps)}
	}
	if !(d.exam.Rate >= 0) || d.exam.Connections < 0 {
		return &place.UsageError{What: fmt.Sprintf("--rate and --connections are numbers from 0 on, not %v and %d", d.exam.Rate, d.exam.Connections)}
	}
	for _, name := range []string{"outbox", "age", "saga", "dead"} {
		if t, err := c.Flags().GetDuration(name); err != nil || t < 0 {
			return &place.UsageError{What: fmt.Sprintf("--%s is a time from 0 on, not %v", name, t)}
		}
	}
	return nil
}

func (d *doctor) atBroker(ctx context.Context, connect func() (broker.Broker, error)) map[string]time.Duration {
	const about = "broker"
	keeps := map[string]time.Duration{}
	b, err := connect()
	if err != nil {
		d.failed(about, "connection", err)
		return keeps
	}
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithTimeout(ctx, brokerPatience)
	defer cancel()
	if _, err := b.Incarnation(ctx); err != nil && !errors.Is(err, broker.ErrNoTopic) {
		d.failed(about, "connection", err)
		return keeps
	}
	d.say(about, "connection", skald.Fine, "it answers", "")
	d.missing(ctx, b)
	if one, ok := b.(broker.Examiner); ok {
		list, err := one.Examine(ctx, d.topics...)
		if err != nil {
			d.failed(about, "settings", err)
		}
		d.take(about, list)
	}
	if one, ok := b.(broker.Keeper); ok && len(d.topics) > 0 {
		if keeps, err = one.Keeps(ctx, d.topics...); err != nil {
			d.failed(about, "retention", err)
			keeps = map[string]time.Duration{}
		}
	}
	return keeps
}

// missing names topics, and what a group needs, that are not there or cannot be used.
func (d *doctor) missing(ctx context.Context, b broker.Broker) {
	checker, ok := b.(broker.TopicChecker)
	if !ok || len(d.topics) == 0 {
		return
	}
	w := topology{topics: d.topics}
	if d.consumer != "" {
		w.groups = []string{d.consumer}
	}
	missing, err := w.missing(ctx, b, checker)
	if err != nil {
		d.failed("broker", "topics", err)
		return
	}
	for _, what := range missing {
		d.say("broker", "topics", skald.Failed, what, "run: skald migrate --broker URL --topic NAME, or change what is said")
	}
	if len(missing) == 0 {
		d.say("broker", "topics", skald.Fine, strings.Join(d.topics, ", ")+": they are there as they need to be", "")
	}
}

// compare says which sums are more than marks are kept.
func (d *doctor) compare(keeps map[string]time.Duration) {
	const about = "window"
	var keep store.Retention
	if d.keeps != nil {
		keep = *d.keeps
	}
	keep, err := retention.OrDefaults(keep)
	if err != nil {
		d.failed(about, "retention", err)
		return
	}
	d.window.Marks, d.window.Steps, d.window.Broker = keep.Marks, keep.Steps, keeps
	broken := d.window.Broken()
	for _, err := range broken {
		var one *store.RetentionError
		if errors.As(err, &one) {
			d.say(about, "marks", skald.Failed, one.What, one.Remedy)
		}
	}
	apart := d.window.Endless() // topics of which there is no sum
	for _, topic := range apart {
		d.say(about, "topic "+topic, skald.Doubtful, "the broker keeps its messages for ever, marks "+keep.Marks.String(),
			"what is read again from its beginning goes into quarantine as too old, or is handled again if its id tells no time: let the broker keep it for some days")
	}
	for _, topic := range d.topics {
		if _, known := keeps[topic]; !known && d.bus != "" {
			apart = append(apart, topic)
			d.say(about, "topic "+topic, skald.Doubtful, "the broker does not tell how long it keeps messages", "give --broker-keeps")
		}
	}
	if len(broken) == 0 {
		d.outlive(keep.Marks, apart)
	}
}

// outlive says that marks are kept long enough for all that was compared, and what was not: without it, that is no more than a guess.
func (d *doctor) outlive(marks time.Duration, apart []string) {
	saw, grade := fmt.Sprintf("kept %v: longer than a message may come, be tried again or be waited for", marks), skald.Fine
	var remedy []string
	if d.keeps == nil {
		saw, grade = saw+"; "+marks.String()+" is the default, the database did not tell", skald.Doubtful
		remedy = append(remedy, "give --store, of a database that can be looked at")
	}
	switch {
	case len(d.window.Broker) == 0:
		saw, grade = saw+", if the broker keeps none: how long it does was not compared", skald.Doubtful
		remedy = append(remedy, "give --broker with each --topic, or --broker-keeps")
	case len(apart) > 0:
		saw += ", but for what the broker keeps of " + strings.Join(apart, ", ")
	}
	d.say("window", "marks", grade, saw, strings.Join(remedy, "; "))
}

// handlers compares what a service measured with how long a handler may take: half of it leaves room for a bad day.
func (d *doctor) handlers(ctx context.Context) {
	if d.metrics == "" {
		return
	}
	const about = "handlers"
	family, err := scrape(ctx, d.metrics, "skald_inbox_process_duration_seconds")
	if err != nil {
		d.failed(about, "metrics", err)
		return
	}
	late := map[string]float64{}
	for consumer, h := range merged(family) {
		if d.consumer == "" || d.consumer == consumer {
			late[consumer] = quantile(0.99, h)
		}
	}
	if len(late) == 0 {
		d.say(about, "metrics", skald.Doubtful, "no message was handled there yet", "ask again later, or ask another process")
	}
	for _, consumer := range slices.Sorted(maps.Keys(late)) {
		grade, remedy := skald.Fine, ""
		switch may := d.exam.Handle.Seconds(); {
		case late[consumer] > may:
			grade, remedy = skald.Failed, "raise inbox.Options.Handle (and --handle), or call what is slow outside of the transaction"
		case late[consumer] > may/2:
			grade, remedy = skald.Doubtful, "raise inbox.Options.Handle, or make handlers quicker: little is left before they are cut off"
		}
		d.say(about, "p99 of "+consumer, grade, fmt.Sprintf("at most %v, a handler may take %v", seconds(late[consumer]), d.exam.Handle), remedy)
	}
}

func seconds(s float64) string {
	if math.IsInf(s, 1) {
		return "more than the largest that is measured"
	}
	return time.Duration(s * float64(time.Second)).String()
}

func scrape(ctx context.Context, url, name string) (*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, brokerPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, &place.UsageError{What: "--metrics: " + err.Error()}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask for metrics: %s", resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return all[name], nil
}

// merged adds the histograms of a consumer, of all topics and outcomes, by upper bounds.
func merged(family *dto.MetricFamily) map[string]map[float64]uint64 {
	out := map[string]map[float64]uint64{}
	for _, m := range family.GetMetric() {
		consumer := ""
		for _, l := range m.GetLabel() {
			if l.GetName() == "consumer" {
				consumer = l.GetValue()
			}
		}
		if out[consumer] == nil {
			out[consumer] = map[float64]uint64{}
		}
		for _, b := range m.GetHistogram().GetBucket() {
			out[consumer][b.GetUpperBound()] += b.GetCumulativeCount()
		}
	}
	return out
}

// quantile is the upper bound of the bucket that it falls into.
func quantile(q float64, cumulative map[float64]uint64) float64 {
	bounds := slices.Sorted(maps.Keys(cumulative))
	if len(bounds) == 0 {
		return 0
	}
	all := float64(cumulative[bounds[len(bounds)-1]])
	for _, b := range bounds {
		if float64(cumulative[b]) >= q*all {
			return b
		}
	}
	return bounds[len(bounds)-1]
}
