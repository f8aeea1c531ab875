package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker/kafkabroker"
)

const partitions = 16

// producer is a franz-go client with acks=all and idempotence, which are its defaults.
func (b *bench) producer(more ...kgo.Opt) (*kgo.Client, error) {
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(b.kafka, ",")...), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	}, more...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to Kafka: %w", err)
	}
	b.later(func() error { cl.Close(); return nil })
	return cl, nil
}

func kafkaDrains() comparison {
	return comparison{
		name:  "relay-kafka",
		title: "a backlog through one relay into Kafka (acks=all, 16 partitions); rows per second",
		kafka: true,
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			topic, err := b.topic(ctx, partitions)
			if err != nil {
				return nil, err
			}
			y, err := b.yard(ctx, topic, b.rows)
			if err != nil {
				return nil, err
			}
			bus, err := kafkabroker.New(b.kafka, nil)
			if err != nil {
				return nil, err
			}
			b.later(bus.Close)
			hand, err := y.handCursor(ctx)
			if err != nil {
				return nil, err
			}
			poller, err := y.kafkaPoller(topic)
			if err != nil {
				return nil, err
			}
			return []contender{{name: "skald relay", turn: func(ctx context.Context, m *meter) error {
				return m.carry(ctx, y.db, newSink(bus, b.rows), plainRelay())
			}}, hand, poller}, nil
		},
		bars: []bar{
			{what: "skald relay ÷ by hand: cursor", of: "skald relay", to: []string{"by hand: cursor"},
				value: perSecond, least: 0.8},
			{what: "skald relay ÷ tutorial's poller", of: "skald relay", to: []string{"tutorial's poller"},
				value: perSecond},
		},
	}
}

func (y *yard) kafkaPoller(topic string) (contender, error) {
	cl, err := y.b.producer(kgo.ProducerLinger(0))
	if err != nil {
		return contender{}, err
	}
	return y.poller(func(ctx context.Context, keys []string, payloads [][]byte) error {
		records := make([]*kgo.Record, len(keys))
		for i := range keys {
			records[i] = &kgo.Record{Topic: topic, Key: []byte(keys[i]), Value: payloads[i]}
		}
		return cl.ProduceSync(ctx, records...).FirstErr()
	}), nil
}

// handPage is what the loop by hand reads at a time: the fastest of 1,000 to 20,000.
const handPage = 5000

// handCursor is the loop that one writes by hand: an ascending cursor over a plain table that holds the same
// rows, the same headers, pages read while others are on their way, the cursor stored behind each page's
// acknowledgement. Behind a record that fails for good it may publish later ones of its key.
func (y *yard) handCursor(ctx context.Context) (contender, error) {
	cl, err := y.b.producer(kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(4*handPage))
	if err != nil {
		return contender{}, err
	}
	err = execAll(ctx, y.pool, "create table plain"+plainTable,
		"create table place (name text primary key, seq bigint not null)")
	if err != nil {
		return contender{}, err
	}
	if err := copyRows(ctx, y.pool, "insert into plain ("+plainColumns+") select "+plainColumns,
		y.b.rows); err != nil {
		return contender{}, err
	}
	if err := execAll(ctx, y.pool, "vacuum analyze plain"); err != nil {
		return contender{}, err
	}
	ready := func(ctx context.Context) error {
		return execAll(ctx, y.pool, "truncate place", "insert into place values ('r', 0)")
	}
	return contender{"by hand: cursor", ready, func(ctx context.Context, m *meter) error {
		m.r.Concurrency = 1
		if err := m.begin(ctx); err != nil {
			return err
		}
		n, err := y.byHand(ctx, cl)
		m.end(ctx, n)
		return err
	}}, nil
}

type handRead struct {
	records []kgo.Record
	last    int64
	err     error
}

func (y *yard) byHand(ctx context.Context, cl *kgo.Client) (total int, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pages := make(chan handRead, 1)
	go func() {
		defer close(pages)
		for last := int64(0); ; {
			p := y.handRead(ctx, last)
			last = p.last
			select {
			case pages <- p:
			case <-ctx.Done():
				return
			}
			if p.err != nil || len(p.records) == 0 {
				return
			}
		}
	}()
	under := make(chan *handSent, 2)
	var stored error
	var wg sync.WaitGroup
	wg.Go(func() { stored = y.store(ctx, under, &total) })
	for p := range pages {
		if err = p.err; err != nil || len(p.records) == 0 {
			break
		}
		under <- send(ctx, cl, p)
	}
	close(under)
	wg.Wait()
	return total, errors.Join(err, stored, ctx.Err())
}

// handSent is a page on its way.
type handSent struct {
	handRead
	left atomic.Int64
	bad  atomic.Pointer[error]
	done chan struct{}
}

func send(ctx context.Context, cl *kgo.Client, p handRead) *handSent {
	s := &handSent{handRead: p, done: make(chan struct{})}
	s.left.Store(int64(len(p.records)))
	for i := range p.records {
		cl.Produce(ctx, &p.records[i], func(_ *kgo.Record, err error) {
			if err != nil {
				s.bad.Store(&err)
			}
			if s.left.Add(-1) == 0 {
				close(s.done)
			}
		})
	}
	return s
}

// store moves the cursor behind each page, in order.
func (y *yard) store(ctx context.Context, under <-chan *handSent, total *int) (err error) {
	for s := range under {
		<-s.done
		if bad := s.bad.Load(); bad != nil && err == nil {
			err = *bad
		}
		if err == nil {
			_, err = y.pool.Exec(ctx, "update place set seq = $1 where name = 'r'", s.last)
			*total += len(s.records)
		}
	}
	return err
}

// handRead reads the columns that Skald's relay reads and writes the headers that its Kafka driver writes.
func (y *yard) handRead(ctx context.Context, after int64) handRead {
	out := handRead{records: make([]kgo.Record, 0, handPage), last: after}
	rows, err := y.pool.Query(ctx,
		fmt.Sprintf(`select seq, id::text, time, source, topic, type, content_type, schema, subject, correlation_id,
		causation_id, traceparent, key, data from (select *, '/bench' as source from plain) as o where seq > $1 order by seq limit %d`, handPage), after)
	if err != nil {
		out.err = err
		return out
	}
	var id, source, topic, kind, contentType string
	var schema, subject, correlation, causation, trace *string
	var key, data []byte
	var at time.Time
	_, out.err = pgx.ForEachRow(rows, []any{&out.last, &id, &at, &source, &topic, &kind, &contentType,
		&schema, &subject, &correlation,
		&causation, &trace, &key, &data}, func() error {
		h := make([]kgo.RecordHeader, 0, 10)
		add := func(name, value string) { h = append(h, kgo.RecordHeader{Key: name, Value: []byte(value)}) }
		add("ce_specversion", "1.0")
		add("ce_id", id)
		add("ce_source", source)
		add("ce_type", kind)
		add("ce_time", at.UTC().Format(time.RFC3339Nano))
		add("ce_partitionkey", string(key))
		add("ce_sequence", fmt.Sprintf("%020d", out.last))
		add("content-type", contentType)
		for _, o := range []struct {
			name  string
			value *string
		}{{"ce_dataschema", schema}, {"ce_subject", subject}, {"ce_correlationid", correlation},
			{"ce_causationid", causation}, {"ce_traceparent", trace}} {
			if o.value != nil {
				add(o.name, *o.value)
			}
		}
		out.records = append(out.records, kgo.Record{Topic: topic, Key: key, Value: data, Headers: h})
		return nil
	})
	return out
}
