// Package bridges puts Skald's broker drivers behind the interfaces of Watermill and of go-cloud, so that the
// suites that those have for adapters of their own run on ours: on what others think a broker must do.
//
// The bridges are thin: they translate, and keep what the seam leaves to its caller. The seam has no Nack, so
// a message that is refused is handed out again by the bridge itself; the seam acknowledges in the order of a
// partition, so the bridge acknowledges the finished prefix.
package bridges

import (
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

const (
	source = "/bridges"
	// look is how often partitions that were lost are asked for while a message is in hand.
	look = 100 * time.Millisecond
	// farewell is how long a subscription may take to leave its group.
	farewell = 20 * time.Second
)

func message(topic, id, kind string, key []byte, metadata map[string]string, data []byte) skald.Message {
	m := skald.Message{
		ID: id, Source: source, Type: kind, Topic: topic, Key: key, Time: time.Now().UTC(),
		ContentType: "application/octet-stream", Data: data,
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		m.Headers = append(m.Headers, skald.Header{Name: name, Value: []byte(metadata[name])})
	}
	return m
}

func metadata(d *broker.Delivery) map[string]string {
	if len(d.Headers) == 0 {
		return nil
	}
	out := make(map[string]string, len(d.Headers))
	for _, h := range d.Headers {
		out[h.Name] = string(h.Value)
	}
	return out
}
