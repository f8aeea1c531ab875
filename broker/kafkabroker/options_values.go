package kafkabroker

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// partitionFunc returns the function that selects the partition of a key, by Partition or Partitioner.
func (o *Options) partitionFunc() (func(topic string, key []byte, n int) int, error) {
	if o.Partition == nil {
		return byName(o.Partitioner)
	}
	if o.Partitioner != "" {
		return nil, errors.New("set either Partitioner or Partition, not both")
	}
	return o.Partition, nil
}

// balancers returns franz-go's balancers with these names, in the same order.
func balancers(names []string) ([]kgo.GroupBalancer, error) {
	if len(names) == 0 {
		names = []string{"cooperative-sticky"}
	}
	known := []kgo.GroupBalancer{kgo.CooperativeStickyBalancer(), kgo.StickyBalancer(), kgo.RangeBalancer(),
		kgo.RoundRobinBalancer()}
	var out []kgo.GroupBalancer
	for _, name := range names {
		i := slices.IndexFunc(known, func(b kgo.GroupBalancer) bool { return b.ProtocolName() == name })
		if i < 0 {
			return nil, fmt.Errorf("a balancer is cooperative-sticky, sticky, range or roundrobin, not %q",
				name)
		}
		out = append(out, known[i])
	}
	return out, nil
}

// start is the parsed Options.Start. The zero value means "earliest".
type start struct {
	latest bool
	at     time.Time // zero if Start is not a time
}

func parseStart(s string) (start, error) {
	switch s {
	case "", "earliest":
		return start{}, nil
	case "latest":
		return start{latest: true}, nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return start{}, fmt.Errorf("start is earliest, latest, or a time such as 2026-11-21T12:00:00Z, not %q",
			s)
	}
	return start{at: at}, nil
}
