package inbox

import "testing"

// A line about all topics, or about a topic with a longer name, does not concern a topic.
func TestLinesOfCheckTopicsConcernTheirTopic(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		`topic "a": no such topic`:              true,
		`the queue "skald.a" has no partitions`: true,
		`the exchange and the queue "skald.dropped", which keep what policies drop: missing`: false,
		`topic "data": no such topic`: false,
	} {
		if got := concerns(line, "a"); got != want {
			t.Errorf("%s: %t", line, got)
		}
	}
}
