package operate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
)

// Window has the times that determine how late a message can arrive. Marks must be kept longer than each of
// these times, and than Outbox plus the retention of the broker. Otherwise a late duplicate is handled again.
type Window struct {
	Outbox time.Duration // retention of the producers' outboxes, or their longest lag
	Age    time.Duration // the time for which a failing message is retried
	Saga   time.Duration // the longest life of a saga; 0 means no sagas
	Dead   time.Duration // the age of the oldest dead letter that may still be imported; 0 means no imports
}

// Windows adds a finding for each time in given that is longer than the retention of marks. The map
// brokerRetention has the retention of the broker by topic. An entry for the topic "" applies to all topics
// without an entry. The argument fromBroker reports whether this map was read from the broker.
func (d *Doctor) Windows(given Window, brokerRetention map[string]time.Duration, fromBroker bool) {
	const about = "window"
	d.checkStopped(brokerRetention)
	if d.keeps == nil && slices.ContainsFunc(d.Found, ofStore) {
		d.Add(about, "marks", skald.Doubtful, "not checked: the retention could not be read from the database",
			"repair the failed checks of the store, and run doctor again")
		return
	}
	var keep store.Retention
	if d.keeps != nil {
		keep = *d.keeps
	}
	keep, err := retention.OrDefaults(keep)
	if err != nil {
		d.Failed(about, "retention", err)
		return
	}
	w := retention.Window{Outbox: given.Outbox, Age: given.Age, Saga: given.Saga, Dead: given.Dead,
		Marks: keep.Marks, Steps: keep.Steps, Broker: brokerRetention}
	broken := w.Broken()
	for _, err := range broken {
		var one *store.RetentionError
		if errors.As(err, &one) {
			d.Add(about, "marks", skald.Failed, one.What, one.Remedy)
		}
	}
	uncompared := w.Endless() // topics that the broker keeps forever
	for _, topic := range uncompared {
		d.Add(about, "topic "+topic, skald.Doubtful, "the broker keeps its messages forever, the database keeps marks for "+
			keep.Marks.String(),
			"set a retention of some days at the broker: a reader that starts from the beginning puts old messages into quarantine, or handles them again if their ids contain no time")
	}
	for _, topic := range d.Topics {
		if _, known := brokerRetention[topic]; !known && fromBroker {
			uncompared = append(uncompared, topic)
			d.Add(about, "topic "+topic, skald.Doubtful,
				"the broker does not report its retention", "give --broker-keeps")
		}
	}
	if len(broken) == 0 {
		d.outlive(keep.Marks, uncompared, len(brokerRetention) > 0, fromBroker)
	}
}

// checkStopped adds a finding for each consumer that was stopped, or made no progress, for longer than the
// broker keeps a topic. The broker may have removed messages before this consumer read them.
func (d *Doctor) checkStopped(brokerRetention map[string]time.Duration) {
	for _, c := range d.consumers {
		if !d.matches(c.Name) {
			continue
		}
		var topics []string
		for _, topic := range c.Topics {
			keep, known := brokerRetention[topic]
			if !known {
				keep, known = brokerRetention[""]
			}
			since := c.LastHeartbeat
			if d.lag[c.Name][topic] > 0 {
				since = max(since, c.Progress)
			}
			if known && keep > 0 && since > max(keep, GoneAfter) {
				topics = append(topics, fmt.Sprintf("%s (kept %s, unread for %s)", topic,
					retention.Spell(keep), since.Round(time.Second)))
			}
		}
		if len(topics) > 0 {
			d.Add("window", "stopped "+c.Name, skald.Doubtful,
				"it stopped for longer than the broker keeps messages of "+strings.Join(topics, ", ")+
					": it never handles messages that the broker removed meanwhile",
				"start it: its log and the finding \"missed by "+c.Name+"\" then list the removed messages. "+
					"Publish them again, and let the broker keep messages for longer than a "+
					"consumer may stop")
		}
	}
}

func ofStore(f Finding) bool { return f.About == "store" }

// outlive adds the finding that marks are kept long enough. The grade is Doubtful if the retention of the
// database or of the broker is not known. uncompared has the topics that were left out of the comparison.
// broker reports whether the retention of the broker is known.
func (d *Doctor) outlive(marks time.Duration, uncompared []string, broker, asked bool) {
	saw, grade := fmt.Sprintf("kept %s: longer than a message can be delivered, retried or awaited",
		retention.Spell(marks)), skald.Fine
	var remedy []string
	if d.keeps == nil {
		saw, grade = saw+"; "+retention.Spell(marks)+" is the default, since the database was not read",
			skald.Doubtful
		remedy = append(remedy, "give --store with a database that doctor can read")
	}
	switch {
	case !broker && !asked && len(d.Topics) == 0 && d.keeps != nil: // nobody named a broker
		saw += "; no broker was compared: give --broker with each --topic, or --broker-keeps"
	case !broker:
		saw, grade = saw+"; the retention of the broker was not compared", skald.Doubtful
		remedy = append(remedy, "give --broker with each --topic, or --broker-keeps")
	case len(uncompared) > 0:
		saw += "; not compared with the retention of topic " + strings.Join(uncompared, ", ")
	}
	d.Add("window", "marks", grade, saw, strings.Join(remedy, "; "))
}
