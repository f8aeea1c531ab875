package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store/pgstore"
)

// Debezium asks its queue for 2,048 rows, and waits for as long as poll.interval.ms where there are fewer.
const (
	debeziumName  = "Debezium"
	debeziumQuick = "Debezium, poll.interval.ms=5"
)

func quick() map[string]string { return map[string]string{"poll.interval.ms": "5"} }

const (
	offsetsPause = 50 * time.Millisecond // between two looks at what a topic has
	debeziumRest = 10 * time.Second      // before a flow or rest of it is measured
)

// debezium is a contender of a walField. Where it is not there, there is none.
func (f *walField) debezium(label string, more map[string]string, warm bool,
	turn func(ctx context.Context, m *meter) error) contender {
	c := f.connect
	return contender{name: label,
		ready: func(ctx context.Context) error {
			if err := c.run(ctx); err != nil || f.warm || !warm {
				return err
			}
			f.warm = true
			return f.warmUp(ctx)
		},
		turn: func(ctx context.Context, m *meter) error {
			f.more = more
			c.b.probe.also = c.cmd.Process.Pid
			defer func() { c.b.probe.also = 0 }()
			return turn(ctx, m)
		},
	}
}

// warmUp has Java compile what it runs: all that was written so far is published once.
func (f *walField) warmUp(ctx context.Context) (err error) {
	var rows int64
	if err := f.pool.QueryRow(ctx, "select count(*) from skald_outbox").Scan(&rows); err != nil {
		return err
	}
	_, before, err := f.connect.offsets(ctx, f.topic)
	if err != nil {
		return err
	}
	end, err := f.connect.begin(ctx, true, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	for until := time.Now().Add(f.b.limit); time.Now().Before(until); {
		_, now, err := f.connect.offsets(ctx, f.topic)
		if err != nil || now-before >= rows {
			return err
		}
		if err := waits(ctx, offsetsPause); err != nil {
			return err
		}
	}
	return nil
}

func waits(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// debeziumDrain measures from the first records that the topic has to the last: the start of a connector is
// in Extra.
func (f *walField) debeziumDrain(ctx context.Context, m *meter) (err error) {
	m.r.Concurrency = 1
	_, before, err := f.connect.offsets(ctx, f.topic)
	if err != nil {
		return err
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	asked := time.Now()
	end, err := f.connect.begin(ctx, true, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	first, last := int64(0), int64(0)
	for last < int64(f.b.rows) {
		if time.Since(asked) > f.b.limit {
			m.r.Note = "not drained in time"
			break
		}
		if err := waits(ctx, offsetsPause); err != nil {
			return err
		}
		_, now, err := f.connect.offsets(ctx, f.topic)
		if err != nil {
			return err
		}
		if last = now - before; first == 0 && last > 0 {
			first = last
			m.a = m.b.probe.snap(ctx)
			m.r.Extra = map[string]float64{"start": m.a.at.Sub(asked).Seconds()}
		}
	}
	if first == 0 {
		return errors.New("the connector of Debezium published nothing in time: give it more by -limit")
	}
	m.end(ctx, int(last-first))
	return nil
}

// debeziumFlow measures as flow does. When a record came is what the broker wrote into it.
func (f *walField) debeziumFlow(ctx context.Context, m *meter) (err error) {
	end, err := f.connect.begin(ctx, false, f.more)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	writes, done := context.WithCancel(ctx)
	defer done()
	var sent sync.Map
	var wg sync.WaitGroup
	errs := make(chan error, flowWriters)
	for w := range flowWriters {
		wg.Go(func() { errs <- f.writes(writes, fmt.Sprintf("%s-%d", name(), w), &sent) })
	}
	if err := waits(ctx, debeziumRest); err != nil {
		return err
	}
	from, _, err := f.connect.offsets(ctx, f.topic)
	if err != nil {
		return err
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	select {
	case <-time.After(m.b.dur):
	case err := <-errs:
		return fmt.Errorf("a writer ended: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
	until := time.Now()
	_, upTo, err := f.connect.offsets(ctx, f.topic)
	if err != nil {
		return err
	}
	z := m.b.probe.snap(ctx)
	done()
	wg.Wait()
	if m.lat, err = f.readTimes(ctx, from, upTo, m.a.at, until, &sent); err != nil {
		return err
	}
	m.endWith(z, len(m.lat), until)
	return nil
}

// readTimes reads what came between two moments.
func (f *walField) readTimes(ctx context.Context, from map[int32]int64, upTo int64, a, z time.Time,
	sent *sync.Map) (lat []time.Duration, err error) {
	at, left := map[int32]kgo.Offset{}, upTo
	for p, o := range from {
		at[p] = kgo.NewOffset().At(o)
		left -= o
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(f.b.kafka, ",")...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{f.topic: at}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for left > 0 {
		fetched := cl.PollFetches(ctx)
		if err := errors.Join(fetched.Err0(), ctx.Err()); err != nil {
			return nil, fmt.Errorf("read the topic: %w", err)
		}
		left -= int64(fetched.NumRecords())
		fetched.EachRecord(func(r *kgo.Record) {
			wrote, ok := sent.Load(string(r.Key))
			// the broker's clock has whole milliseconds
			if came := r.Timestamp.Add(time.Millisecond / 2); ok && came.After(a) && came.Before(z) {
				lat = append(lat, came.Sub(wrote.(time.Time)))
			}
		})
	}
	return lat, nil
}

// stamped has the broker write into each record when it came.
func (f *walField) stamped(ctx context.Context) error {
	set := "LogAppendTime"
	_, err := f.connect.adm.AlterTopicConfigs(ctx,
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "message.timestamp.type", Value: &set}}, f.topic)
	return err
}

// flows are the contenders under a flow.
func (f *walField) flows(ctx context.Context) ([]contender, error) {
	all := f.ways(f.flow)
	if f.connect == nil {
		return all, nil
	}
	if err := f.stamped(ctx); err != nil {
		return nil, err
	}
	err := fill(ctx, f.pool, outbox.New[pgx.Tx](pgstore.New(f.pool, nil), nil), f.topic,
		min(f.b.rows, 100_000), nil) // to warm up with
	return append(all, f.debezium(debeziumName, nil, true, f.debeziumFlow),
		f.debezium(debeziumQuick, quick(), true, f.debeziumFlow)), err
}

// idles are those at rest.
func (f *walField) idles() []contender {
	all := f.ways(f.idle)
	if f.connect == nil {
		return all
	}
	turn := func(ctx context.Context, m *meter) (err error) {
		end, err := f.connect.begin(ctx, false, f.more)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
		if err := waits(ctx, debeziumRest); err != nil {
			return err
		}
		if err := m.begin(ctx); err != nil {
			return err
		}
		return f.atRest(ctx, m, func() (looked, asked int64) { return 0, 0 }, waits)
	}
	return append(all, f.debezium(debeziumName, nil, false, turn),
		f.debezium(debeziumQuick, quick(), false, turn))
}

// atRest counts for so long that two or three of the things that come each ten seconds are in it.
func (f *walField) atRest(ctx context.Context, m *meter, count func() (looked, asked int64),
	wait func(context.Context, time.Duration) error) error {
	looked, asked := count()
	committed, err := f.transactions(ctx)
	if err != nil {
		return err
	}
	a := m.b.probe.snap(ctx)
	if err := wait(ctx, 30*time.Second); err != nil {
		return err
	}
	z := m.b.probe.snap(ctx)
	nowLooked, nowAsked := count()
	m.endWith(z, int(nowLooked-looked), z.at)
	more, err := f.transactions(ctx)
	if err != nil {
		return err
	}
	s := z.at.Sub(a.at).Seconds()
	m.r.Extra = map[string]float64{"asked": float64(nowAsked-asked) / s,
		"transactions": float64(more-committed) / s,
		"client_cpu":   math.Round((z.own-a.own)/s) / 1000, "pg_cpu": math.Round((z.pg-a.pg)/s) / 1000}
	return nil
}

// transactions is what the outbox's database has had. A backend says it within a second of its last one, or
// with its next.
func (f *walField) transactions(ctx context.Context) (n int64, err error) {
	err = f.b.probe.conn.QueryRow(ctx,
		"select xact_commit + xact_rollback from pg_stat_database where datname = $1",
		f.pool.Config().ConnConfig.Database).Scan(&n)
	return n, err
}
