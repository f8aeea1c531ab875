package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/saga"
)

// A parcel is what a participant is asked for.
type parcel struct {
	Trip string `json:"trip"`
	Step string `json:"step"`
}

// parcels are the messages of sagas whose three steps are done elsewhere.
type parcels struct {
	asked [3]skald.Event[parcel]
	told  [3]skald.Event[string]
}

func newParcels(to, back string) (e parcels) {
	for i, step := range []string{"one", "two", "three"} {
		e.asked[i] = skald.Event[parcel]{Topic: to, Type: "do." + step}
		e.told[i] = skald.Event[string]{Topic: back, Type: "did." + step}
	}
	return e
}

func (e parcels) definition() *saga.Definition[trip] {
	var steps []saga.StepOf[trip]
	for i, step := range []string{"one", "two", "three"} {
		ask := func(r saga.Run[trip]) parcel { return parcel{r.In.ID, step} }
		steps = append(steps, saga.Command(step, e.asked[i], ask, saga.Reply(e.told[i]),
			saga.NoEffect()))
	}
	return saga.New("parcels", &saga.Options[trip]{Key: tripKey}, steps...)
}

// does has the participant insert a row for each parcel, and reply, once.
func (e parcels) does(in *inbox.Inbox[pgx.Tx]) {
	trip := func(m skald.Received[parcel]) string { return m.Value.Trip }
	for i := range e.asked {
		inbox.DoOn(inbox.NewStep(in, fmt.Sprint("step", i), trip), e.asked[i],
			func(ctx context.Context, tx pgx.Tx, m skald.Received[parcel]) (inbox.Result, error) {
				_, err := tx.Exec(ctx, insertPayment, m.Value.Trip)
				return inbox.Result{Publish: []skald.Draft{e.told[i].New(m.Value.Trip, "ok")}}, err
			})
	}
}

// apart runs sagas whose commands go through outbox, relay and Kafka into the inbox of a participant that has
// a database of its own, and whose replies come back the same way. batch is how many messages share a
// transaction in either inbox.
func (b *bench) apart(ctx context.Context, name string, clients, batch int) (contender, error) {
	ours, err := b.sagas(ctx)
	if err != nil {
		return contender{}, err
	}
	theirs, err := b.sagas(ctx)
	if err != nil {
		return contender{}, err
	}
	to, err := b.topic(ctx, partitions)
	if err != nil {
		return contender{}, err
	}
	back, err := b.topic(ctx, partitions)
	if err != nil {
		return contender{}, err
	}
	bus, err := kafkabroker.New(b.kafka, nil)
	if err != nil {
		return contender{}, err
	}
	b.later(bus.Close)
	es, o := newParcels(to, back), &inbox.Options{Logger: quietly(), Batch: batch}
	return contender{name: name, turn: func(ctx context.Context, m *meter) error {
		d := es.definition()
		e, err := saga.NewEngine[pgx.Tx](ours.db, &saga.EngineOptions{Logger: quietly()}, d)
		if err != nil {
			return err
		}
		replies, does := inbox.New[pgx.Tx](ours.db, bus, back, o), inbox.New[pgx.Tx](theirs.db, bus, to, o)
		e.Answers(replies)
		es.does(does)
		running, stop := context.WithCancel(ctx)
		defer stop()
		out, in := plainRelay(), plainRelay()
		ended := make(chan error, 1)
		go func() {
			ended <- skald.Run(running, e, replies, does, relay.New(ours.db, bus, &out),
				relay.New(theirs.db, bus, &in))
		}()
		if err := ours.one(ctx, e, d); err != nil { // the groups have their partitions
			return err
		}
		err = m.loop(ctx, clients, 1, func(ctx context.Context, _ int) error { return ours.one(ctx, e, d) })
		stop()
		if err := errors.Join(err, <-ended); err != nil {
			return err
		}
		return theirs.thrice(ctx, ours)
	}}, nil
}

// thrice: each saga has left three rows.
func (s *sagas) thrice(ctx context.Context, of *sagas) error {
	var rows, done int64
	if err := s.pool.QueryRow(ctx, "select count(*) from payment").Scan(&rows); err != nil {
		return fmt.Errorf("count rows: %w", err)
	}
	if err := of.pool.QueryRow(ctx, "select count(*) from skald_saga where status = 'done'").Scan(
		&done); err != nil {
		return fmt.Errorf("count sagas: %w", err)
	}
	if rows != 3*done {
		return fmt.Errorf("%d sagas left %d rows", done, rows)
	}
	return nil
}

func farAway() comparison {
	const single, many = "256 in flight", "2,048 in flight, batches of 100"
	return comparison{
		name:  "sagas-kafka",
		title: "sagas of three commands to a participant over Kafka (acks=all, 16 partitions), each a row in its own database, from start to end",
		kafka: true,
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			a, err := b.apart(ctx, single, 256, 1)
			if err != nil {
				return nil, err
			}
			z, err := b.apart(ctx, many, 2048, 100)
			return []contender{a, z}, err
		},
		bars: []bar{
			{what: "256 in flight, per second", of: single, value: perSecond},
			{what: "2,048 in flight, batches of 100, per second", of: many, value: perSecond, least: 3000},
			{what: "commits of a saga, batches of 100", of: many,
				value: func(r Result) float64 { return r.TxPerOp }},
			{what: "bytes of WAL of a saga, batches of 100", of: many,
				value: func(r Result) float64 { return r.WALPerOp }},
		},
	}
}
