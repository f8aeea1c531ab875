package verbs

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
)

// broker examines the broker, if --broker was given, and checks the retention of marks against the windows.
// It returns an error for an invalid URL.
func (d *doctor) broker(ctx context.Context) error {
	keeps := map[string]time.Duration{}
	if d.bus != "" {
		dial, err := connect.Dial(d.bus)
		if err != nil {
			return err
		}
		keeps = d.atBroker(ctx, dial)
	}
	if d.brokerKeeps > 0 {
		for _, topic := range d.Topics {
			keeps[topic] = d.brokerKeeps
		}
		if len(d.Topics) == 0 {
			keeps[""] = d.brokerKeeps
		}
	}
	d.Windows(d.window, keeps, d.bus != "")
	return nil
}

// sensible returns a usage error for invalid times and numbers, such as negative ones. With such values,
// doctor would skip a check, or would not report that marks are deleted too early.
func (d *doctor) sensible(c *cobra.Command) error {
	if c.Flags().Changed("broker-keeps") && d.brokerKeeps <= 0 {
		return &cli.UsageError{What: fmt.Sprintf(
			"--broker-keeps is a time above 0, not %v: omit it to read the retention from the broker",
			d.brokerKeeps)}
	}
	if !(d.Exam.Rate >= 0) || d.Exam.Connections < 0 {
		return &cli.UsageError{What: fmt.Sprintf(
			"--rate and --connections cannot be negative: they are %v and %d", d.Exam.Rate, d.Exam.Connections)}
	}
	for _, name := range []string{"outbox", "age", "saga", "dead"} {
		if t, err := c.Flags().GetDuration(name); err != nil || t < 0 {
			return &cli.UsageError{What: fmt.Sprintf("--%s cannot be negative: it is %v", name, t)}
		}
	}
	return nil
}

func (d *doctor) atBroker(ctx context.Context, dial func() (broker.Broker, error)) map[string]time.Duration {
	b, err := dial()
	if err != nil {
		d.Failed("broker", "connection", err)
		return map[string]time.Duration{}
	}
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithTimeout(ctx, connect.BrokerPatience)
	defer cancel()
	return d.Broker(ctx, b)
}

// handlers compares the measured durations of handlers with their limit. It adds a warning for durations
// above half of the limit.
func (d *doctor) handlers(ctx context.Context) {
	if d.metrics == "" {
		return
	}
	const about = "handlers"
	family, err := scrape(ctx, d.metrics, "skald_inbox_process_duration_seconds")
	if err != nil {
		d.Failed(about, "metrics", err)
		return
	}
	late := map[string]float64{}
	for consumer, h := range merged(family) {
		if d.Consumer == "" || d.Consumer == consumer {
			late[consumer] = quantile(0.99, h)
		}
	}
	if len(late) == 0 {
		d.Add(about, "metrics", skald.Doubtful, "this process has not handled a message yet",
			"run doctor again later, or give the metrics of another process")
	}
	for _, consumer := range slices.Sorted(maps.Keys(late)) {
		grade, remedy := skald.Fine, ""
		switch may := d.Exam.Handle.Seconds(); {
		case late[consumer] > may:
			grade, remedy = skald.Failed,
				"raise inbox.Options.Timeouts.Handle (and --handle), or move slow calls out of the transaction"
		case late[consumer] > may/2:
			grade, remedy = skald.Doubtful,
				"raise inbox.Options.Timeouts.Handle, or make handlers faster: they are close to their limit"
		}
		d.Add(about, "p99 of "+consumer, grade,
			fmt.Sprintf("at most %v; the limit of a handler is %v",
				seconds(late[consumer]), d.Exam.Handle), remedy)
	}
}

func seconds(s float64) string {
	if math.IsInf(s, 1) {
		return "more than the largest bucket"
	}
	return time.Duration(s * float64(time.Second)).String()
}

func scrape(ctx context.Context, url, name string) (*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, connect.BrokerPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, &cli.UsageError{What: "--metrics: " + err.Error()}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics: %s", resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return all[name], nil
}

// merged returns one histogram for each consumer: the sum over all topics and outcomes. The inner map has the
// counts by the upper bounds of the buckets.
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

// quantile returns the upper bound of the bucket that has the quantile q.
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
