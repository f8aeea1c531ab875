package kafkabroker

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// settings returns the values of the settings with these names, by topic and name. It omits topics that do
// not exist, and topics with settings that the user may not read.
func settings(ctx context.Context, cl *kgo.Client, topics []string,
	names ...string) (map[string]map[string]string, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, t := range topics {
		one := kmsg.NewDescribeConfigsRequestResource()
		one.ResourceType, one.ResourceName, one.ConfigNames = kmsg.ConfigResourceTypeTopic, t, names
		req.Resources = append(req.Resources, one)
	}
	resp, err := within(ctx, func() (*kmsg.DescribeConfigsResponse, error) {
		return req.RequestWith(ctx, cl)
	})
	if err != nil {
		return nil, fmt.Errorf("read settings of topics: %w", orUnavailable(err))
	}
	out := map[string]map[string]string{}
	for _, r := range resp.Resources {
		if kerr.ErrorForCode(r.ErrorCode) != nil {
			continue
		}
		out[r.ResourceName] = map[string]string{}
		for _, c := range r.Configs {
			out[r.ResourceName][c.Name] = text(c.Value)
		}
	}
	return out, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

const largestSetting = "max.message.bytes"

// maxBytes returns the maximum batch size of topics. It omits topics with settings that cannot be read; the
// default applies to them.
func maxBytes(ctx context.Context, cl *kgo.Client, topics []string) map[string]int {
	out := map[string]int{}
	all, err := settings(ctx, cl, topics, largestSetting)
	if err != nil {
		return out
	}
	for topic, is := range all {
		if n, err := strconv.Atoi(is[largestSetting]); err == nil && n > 0 {
			out[topic] = min(n, usualLimit*16)
		}
	}
	return out
}
