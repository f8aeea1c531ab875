package natsbroker

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// Examine checks the server, and the replicas of the streams of topics. CheckTopics reports settings that
// lose messages.
func (b *Broker) Examine(ctx context.Context, topics ...string) ([]skald.Finding, error) {
	if _, err := b.js.AccountInfo(ctx); err != nil {
		return nil, fmt.Errorf("read JetStream: %w", b.orUnavailable(err))
	}
	nc := b.js.Conn()
	out := ofServer(nc.ConnectedServerVersion(), nc.MaxPayload())
	clustered := nc.ConnectedClusterName() != ""
	for _, name := range topics {
		s, err := b.streamOf(ctx, name)
		if errors.Is(err, broker.ErrNoTopic) {
			continue // CheckTopics reports it
		}
		if err != nil {
			return nil, fmt.Errorf("read topic %q: %w", name, err)
		}
		f := skald.Finding{Name: "replicas of " + name, Grade: skald.Fine,
			Observed: fmt.Sprint(s.CachedInfo().Config.Replicas)}
		if clustered && s.CachedInfo().Config.Replicas < 3 {
			f.Grade, f.Remedy = skald.Doubtful,
				"use three replicas: a server that is down stops the topic, and a server that loses its disk loses acknowledged messages"
		}
		out = append(out, f)
	}
	return out, nil
}
