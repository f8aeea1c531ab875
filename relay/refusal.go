// This file limits the cost of refused rows: log lines, and calls to find the refused row among others.

package relay

import (
	"errors"
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
)

const (
	// refusalsEvery is the minimum time between two log lines about the same topic and reason.
	refusalsEvery = 2 * time.Minute
	// reasonsMost limits the reasons with log lines of their own, for each topic.
	reasonsMost = 8
	// topicsMost limits the topics in memory, because rows may have any topic.
	topicsMost = 1000
	// aloneMost is the maximum number of rows of a topic that the relay publishes alone within aloneFor. Each
	// such row costs a read and a call, which delay other rows. After that number the relay defers all
	// refused rows of the topic.
	aloneMost = 20
	aloneFor  = 2 * time.Minute
)

// reasons counts refused rows by topic and reason, to limit the log lines about them.
type reasons map[string]map[string]refusals

// refusals has the number of refused rows since the last log line about one topic and reason.
type refusals struct {
	rows int
	next time.Time // when the next line is due
}

// countRefused counts a refused row. If due is true, the row must be logged, and rows is the number of
// refused rows since the last log line.
func (l reasons) countRefused(topic, why string, now time.Time) (rows int, due bool) {
	of := l[topic]
	if of == nil {
		if len(l) >= topicsMost {
			clear(l)
		}
		of = map[string]refusals{}
		l[topic] = of
	}
	why = withoutNumbers(why)
	if _, known := of[why]; !known && len(of) >= reasonsMost {
		why = "" // one line for all other reasons
	}
	said := of[why]
	if said.rows++; now.Before(said.next) {
		of[why] = said
		return said.rows, false
	}
	of[why] = refusals{next: now.Add(refusalsEvery)}
	return said.rows, true
}

// withoutNumbers removes digits from a reason, because sizes and positions differ from row to row.
func withoutNumbers(why string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, why)
}

// isolated counts the rows of a topic that were refused when they were published alone.
type isolated struct {
	rows  int
	until time.Time
}

// refusedForGood returns true if the relay defers a refused row without publishing it alone. It does so if
// the refusal is clearly about this row. It also does so after many rows of the topic were published alone;
// then retryDeferred publishes the row alone later.
func (r *Relay) refusedForGood(topic string, refused error) bool {
	switch {
	case errors.Is(refused, broker.ErrNoTopic): // noteMissingTopic then defers all rows of the topic
		return false
	case !errors.Is(refused, broker.ErrShared):
		return true
	}
	i := r.isolated[topic]
	return i.rows >= aloneMost && r.o.Now().Before(i.until)
}

// noteAlone counts a refused row that was published alone.
func (r *Relay) noteAlone(topic string, alone bool) {
	if !alone {
		return
	}
	now, i := r.o.Now(), r.isolated[topic]
	if !now.Before(i.until) {
		i = isolated{until: now.Add(aloneFor)}
	}
	i.rows++
	if len(r.isolated) >= topicsMost {
		clear(r.isolated)
	}
	r.isolated[topic] = i
}
