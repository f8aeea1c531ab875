package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"sync"
	"time"

	wmessage "github.com/ThreeDotsLabs/watermill/message"

	"github.com/skald-go/skald"
)

// wireHeaders are the CloudEvents headers of what a relay publishes.
func wireHeaders(prefix string, m *skald.Message) []skald.Header {
	text := func(name, value string) skald.Header { return skald.Header{Name: name, Value: []byte(value)} }
	return []skald.Header{
		text(prefix+"specversion", "1.0"), text(prefix+"id", m.ID), text(prefix+"source", m.Source),
		text(prefix+"type", m.Type),
		text(prefix+"time", m.Time.UTC().Format(time.RFC3339Nano)),
		{Name: prefix + "partitionkey", Value: m.Key},
		text(prefix+"sequence", m.Sequence), text("content-type", m.ContentType),
		text(prefix+"correlationid", m.CorrelationID),
	}
}

// watermill are Watermill's adapter as its forwarder uses it, one message after the other, and with as many
// goroutines as it profits from, each with its share of the keys.
func (w *wire) watermill(pub wmessage.Publisher, topic, prefix string) []sender {
	by := func(n int) func(context.Context, iter.Seq[[]skald.Message]) error {
		return func(ctx context.Context, pages iter.Seq[[]skald.Message]) error {
			return publishers(ctx, pub, topic, prefix, n, pages)
		}
	}
	return []sender{{watermill1, w.b.peerRows / 4, by(1)}, {watermill64, min(w.rows, 5*w.b.peerRows), by(64)}}
}

func publishers(ctx context.Context, pub wmessage.Publisher, topic, prefix string, n int,
	pages iter.Seq[[]skald.Message]) error {
	shares, errs := make([]chan *skald.Message, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range shares {
		shares[i] = make(chan *skald.Message, 64)
		wg.Go(func() {
			for m := range shares[i] {
				if errs[i] == nil {
					errs[i] = pub.Publish(topic, toWatermill(prefix, m))
				}
			}
		})
	}
	for page := range pages {
		for i := range page {
			h := fnv.New32a()
			_, _ = h.Write(page[i].Key)
			shares[h.Sum32()%uint32(n)] <- &page[i]
		}
		if ctx.Err() != nil {
			break
		}
	}
	for _, s := range shares {
		close(s)
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func toWatermill(prefix string, m *skald.Message) *wmessage.Message {
	out := wmessage.NewMessage(m.ID, m.Data)
	for _, h := range wireHeaders(prefix, m) {
		out.Metadata[h.Name] = string(h.Value)
	}
	return out
}

// drainWatermill takes and acknowledges one message after the other, as Watermill has it.
func drainWatermill(ctx context.Context, sub wmessage.Subscriber, topic string, rows int,
	first func()) error {
	in, err := sub.Subscribe(ctx, topic)
	if err != nil {
		return err
	}
	for n := range rows {
		select {
		case m, ok := <-in:
			if !ok {
				return fmt.Errorf("the subscription ended behind %d of %d", n, rows)
			}
			first()
			m.Ack()
		case <-ctx.Done():
			return fmt.Errorf("%d of %d came: %w", n, rows, ctx.Err())
		}
	}
	return sub.Close()
}
