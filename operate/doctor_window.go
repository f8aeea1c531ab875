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

// Window limits how late a message may arrive. Marks must be kept longer than the sums of its fields.
type Window struct {
	Outbox time.Duration // retention of the producers' outboxes, or their longest lag
	Age    time.Duration // how long a failing message is retried
	Saga   time.Duration // the longest life of a saga; 0 means no sagas
	Dead   time.Duration // how long dead letters may still arrive from another place; 0 means that none do
}

// Windows adds a finding for each sum that is longer than the retention of marks. keeps is the broker's
// known retention by topic; the topic "" applies to any. asked reports that the broker was asked.
func (d *Doctor) Windows(given Window, keeps map[string]time.Duration, asked bool) {
	const about = "window"
	d.stopped(keeps)
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
		Marks: keep.Marks, Steps: keep.Steps, Broker: keeps}
	broken := w.Broken()
	for _, err := range broken {
		var one *store.RetentionError
		if errors.As(err, &one) {
			d.Add(about, "marks", skald.Failed, one.What, one.Remedy)
		}
	}
	apart := w.Endless() // topics without a sum
	for _, topic := range apart {
		d.Add(about, "topic "+topic, skald.Doubtful, "the broker keeps its messages forever, the database keeps marks for "+
			keep.Marks.String(),
			"set a retention of some days at the broker: a reader that starts from the beginning puts old messages into quarantine, or handles them again if their ids contain no time")
	}
	for _, topic := range d.Topics {
		if _, known := keeps[topic]; !known && asked {
			apart = append(apart, topic)
			d.Add(about, "topic "+topic, skald.Doubtful,
				"the broker does not report its retention", "give --broker-keeps")
		}
	}
	if len(broken) == 0 {
		d.outlive(keep.Marks, apart, len(keeps) > 0, asked)
	}
}

// stopped adds a finding for each consumer that has sent no heartbeat, or left messages unread, for longer
// than the broker keeps a topic: the broker removes messages before the consumer reads them.
func (d *Doctor) stopped(keeps map[string]time.Duration) {
	for _, c := range d.consumers {
		if !d.matches(c.Name) {
			continue
		}
		var topics []string
		for _, topic := range c.Topics {
			keep, known := keeps[topic]
			if !known {
				keep, known = keeps[""]
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
					": what the broker removed meanwhile is never handled",
				"start it: its log and the finding \"missed by "+c.Name+"\" then have the messages that "+
					"were removed. Have them sent again, and let the broker keep messages for longer than a "+
					"consumer may stop")
		}
	}
}

func ofStore(f Finding) bool { return f.About == "store" }

// outlive adds the finding that marks are kept long enough. It also names each part that was not compared.
// If the retention of the database or of the broker is unknown, the grade is Doubtful.
func (d *Doctor) outlive(marks time.Duration, apart []string, broker, asked bool) {
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
	case len(apart) > 0:
		saw += "; not compared with the retention of topic " + strings.Join(apart, ", ")
	}
	d.Add("window", "marks", grade, saw, strings.Join(remedy, "; "))
}
