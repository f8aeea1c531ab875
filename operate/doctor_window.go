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
	if d.keeps == nil && slices.ContainsFunc(d.Found, ofStore) {
		d.Say(about, "marks", skald.Doubtful, "not looked at: the database did not tell how long they are kept",
			"see to what failed of the store, and look again")
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
			d.Say(about, "marks", skald.Failed, one.What, one.Remedy)
		}
	}
	apart := w.Endless() // topics without a sum
	for _, topic := range apart {
		d.Say(about, "topic "+topic, skald.Doubtful, "the broker keeps its messages for ever, marks "+
			keep.Marks.String(),
			"what is read again from its beginning goes into quarantine as too old, or is handled again if its id tells no time: let the broker keep it for some days")
	}
	for _, topic := range d.Topics {
		if _, known := keeps[topic]; !known && asked {
			apart = append(apart, topic)
			d.Say(about, "topic "+topic, skald.Doubtful,
				"the broker does not tell how long it keeps messages", "give --broker-keeps")
		}
	}
	if len(broken) == 0 {
		d.outlive(keep.Marks, apart, len(keeps) > 0)
	}
}

func ofStore(f Finding) bool { return f.About == "store" }

// outlive adds the finding that marks are kept long enough. It also names each part that was not compared:
// without these parts the result is a guess.
func (d *Doctor) outlive(marks time.Duration, apart []string, broker bool) {
	saw, grade := fmt.Sprintf("kept %s: longer than a message may come, be tried again or be waited for",
		retention.Spell(marks)), skald.Fine
	var remedy []string
	if d.keeps == nil {
		saw, grade = saw+"; "+retention.Spell(marks)+" is the default, the database did not tell",
			skald.Doubtful
		remedy = append(remedy, "give --store, of a database that can be looked at")
	}
	switch {
	case !broker:
		saw, grade = saw+", if the broker keeps none: how long it does was not compared", skald.Doubtful
		remedy = append(remedy, "give --broker with each --topic, or --broker-keeps")
	case len(apart) > 0:
		saw += ", but for what the broker keeps of " + strings.Join(apart, ", ")
	}
	d.Say("window", "marks", grade, saw, strings.Join(remedy, "; "))
}
