package relay

import (
	"errors"
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
)

const (
	// refusalsEvery is the least time between two lines in the log about one topic and reason.
	refusalsEvery = 2 * time.Minute
	// reasonsMost limits the reasons that are logged separately for each topic.
	reasonsMost = 8
	// topicsMost limits the topics that are remembered. Rows may name any topic.
	topicsMost = 1000
	// aloneMost is the maximum number of rows of a topic that are isolated within aloneFor. After that the
	// relay defers all refused rows of the topic, because each isolated row costs a read and a call, which
	// delay other rows.
	aloneMost = 20
	aloneFor  = 2 * time.Minute
)

// reasons limits the log lines about refused rows, by topic and reason.
type reasons map[string]map[string]refusals

// refusals counts the rows of a topic that were refused for one reason, since the last log line about them.
type refusals struct {
	rows int
	next time.Time // of the next line
}

// due counts a refused row. It reports whether the row must be logged, and the number of rows since the last
// log line.
func (l reasons) due(topic, why string, now time.Time) (rows int, due bool) {
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
		why = "" // the others
	}
	said := of[why]
	if said.rows++; now.Before(said.next) {
		of[why] = said
		return said.rows, false
	}
	of[why] = refusals{next: now.Add(refusalsEvery)}
	return said.rows, true
}

// withoutNumbers returns a reason without digits, because sizes and positions differ for each row.
func withoutNumbers(why string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, why)
}

// isolated counts the rows of a topic that were refused alone.
type isolated struct {
	rows  int
	until time.Time
}

// refusedForGood reports whether a refused row is deferred without isolating it. The relay does so if the
// refusal clearly concerns this row, or if many rows of the topic were refused alone. In the second case
// retryDeferred later isolates the rows.
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

// noteAlone counts a refused row if it was published alone.
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
