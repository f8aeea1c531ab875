package place_test

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// removeTopics removes topics when the test is over.
func removeTopics(t *testing.T, seeds string, topics []string) {
	t.Cleanup(func() {
		client, err := kgo.NewClient(kgo.SeedBrokers(seeds))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := kadm.NewClient(client).DeleteTopics(context.Background(), topics...); err != nil {
			t.Error(err)
		}
	})
}
