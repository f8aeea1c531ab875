package deploy

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
)

// A case breaks something for real, and says which alert is to fire, and no other.
type incident struct {
	alert  string
	happen func(w *world)
	repair func(w *world)
	lasts  time.Duration // longer than the rule's "for"
}

func incidents() []incident {
	const day = 24 * time.Hour
	return []incident{
		{"SkaldRelayGone",
			func(w *world) {
				w.say("orders", 0)
				w.until("it is published", func() bool { return w.backlog().Retained > 0 && w.backlog().Pending == 0 })
				w.stop("relay")
				w.until("its shards are free", func() bool { return retention.Unrelayed(w.backlog()) > 0 })
			},
			func(w *world) {
				w.startRelay()
				w.until("the shards are taken", func() bool { return w.backlog().Free == 0 })
			}, 2 * time.Minute},
		{"SkaldRelayCutOff",
			func(w *world) {
				w.bus.away.Store(true)
				w.say("orders", 0)
				w.until("it is not published", func() bool { return w.brokerAway() > 0 })
				w.relayAhead.Add(int64(90 * time.Second))
				w.until("that has lasted", func() bool { return w.brokerAway() > time.Minute })
			},
			func(w *world) {
				w.bus.away.Store(false)
				w.until("it is published", func() bool { return w.backlog().Pending == 0 && w.brokerAway() == 0 })
				w.relayAhead.Add(int64(90 * time.Second)) // its next scrape asks the database again
			}, 90 * time.Second},
		{"SkaldOutboxOld",
			func(w *world) {
				w.bus.away.Store(true)
				w.say("orders", 2*time.Minute)
				w.until("it is pending", func() bool { return w.backlog().Pending == 1 })
			},
			func(w *world) {
				w.bus.away.Store(false)
				w.until("it is published", func() bool { return w.backlog().Pending == 0 })
			}, 3 * time.Minute},
		{"SkaldDeferred",
			func(w *world) {
				w.say("nowhere", 0)
				w.until("it is set aside", func() bool { return w.backlog().Deferred == 1 })
			},
			func(w *world) {
				if err := w.bus.MakeTopics(w.t.Context(), 1, "nowhere"); err != nil {
					w.t.Fatal(err)
				}
				w.until("it is published", func() bool { return w.backlog().Deferred == 0 })
			}, 6 * time.Minute},
		{"SkaldRetentionStalled",
			func(w *world) {
				w.stalled.Store(true)
				w.dbAhead.Store(int64(10 * day))
				w.until("the relay has its shards again, and nothing to do",
					func() bool { b := w.backlog(); return b.Free == 0 && b.Pending == 0 })
			},
			func(w *world) {
				w.stalled.Store(false)
				w.stop("relay") // its next life looks at once
				w.startRelay()
				w.until("the old rows are gone",
					func() bool { b := w.backlog(); return b.Retained < day && b.Free == 0 })
			}, 61 * time.Minute},
		{"SkaldKeyStuck",
			func(w *world) {
				w.bad.Store(true)
				w.say("orders", 0)
				w.until("its key is stuck", func() bool { return len(w.consumer.Health().Stuck) == 1 })
			},
			func(w *world) {
				w.bad.Store(false)
				w.until("it is handled", func() bool { return len(w.consumer.Health().Stuck) == 0 })
			}, 11 * time.Minute},
		{"SkaldParkedOld", // by whoever is left: the consumer is gone, and reports no stuck key any more
			func(w *world) {
				w.bad.Store(true)
				w.say("orders", 0)
				w.until("its key is stuck", func() bool { return len(w.consumer.Health().Stuck) == 1 })
				w.stop("consumer")
				w.dbAhead.Store(int64(2 * time.Hour))
				w.beat()
				w.until("the relay has its shards again, and nothing to do",
					func() bool { b := w.backlog(); return b.Free == 0 && b.Pending == 0 })
			},
			func(w *world) {
				w.bad.Store(false)
				w.startConsumer()
				w.until("it is handled", func() bool { return w.kept().Parked == 0 })
			}, 6 * time.Minute},
		{"SkaldSkipped",
			func(w *world) {
				w.pass(2 * time.Hour) // what was handled before is forgotten
				renamed := skald.Event[string]{Topic: "orders", Type: "order.renamed"}
				w.tell(renamed.New("42", "an order"), &outbox.Options{})
				w.until("it is skipped", func() bool { return w.consumer.Health().Skipped == 1 })
			},
			func(w *world) {
				handled := w.consumer.Health().Handled
				w.say("orders", 0)
				w.until("one is handled", func() bool { return w.consumer.Health().Handled > handled })
			}, 31 * time.Minute},
		{"SkaldDead",
			func(w *world) {
				w.hopeless.Store(true)
				w.say("orders", 0)
				w.until("it is a dead letter", func() bool { return w.kept().Dead == 1 })
			},
			func(w *world) {
				w.hopeless.Store(false)
				w.redrive()
				w.until("it is handled", func() bool { return w.kept().Dead == 0 && w.kept().Parked == 0 })
			}, 6 * time.Minute},
		{"SkaldConflict",
			func(w *world) {
				w.sayAs("the-same", "an order")
				w.sayAs("the-same", "another order")
				w.until("one of them is in quarantine", func() bool { return w.kept().Conflicts == 1 })
			},
			(*world).admit, 6 * time.Minute},
		{"SkaldQuarantineFull", func(w *world) { w.quarantine(8001) }, (*world).admit, 6 * time.Minute},
		{"SkaldTooOld",
			func(w *world) {
				handled := w.consumer.Health().Handled
				w.say("orders", 0)
				w.until("it is handled",
					func() bool { return w.consumer.Health().Handled > handled && w.backlog().Pending == 0 })
				w.dbAhead.Store(int64(40 * day))
				w.maintain() // which forgets the mark
				w.until("the relay has its shards again, and nothing to do",
					func() bool { b := w.backlog(); return b.Free == 0 && b.Pending == 0 })
				w.sayAs(uuid7.New(time.Now().Add(-time.Hour)), "an order")
				w.until("it is in quarantine",
					func() bool { return w.kept().TooOld == 1 && w.backlog().Pending == 0 })
			},
			(*world).admit, 6 * time.Minute},
		{"SkaldCallUnsettled", // once it is so old by the clocks of the process and of the database
			func(w *world) {
				w.dbAhead.Store(w.ahead.Load())
				w.silent.Store(true)
				w.pay()
				w.until("its call is not answered",
					func() bool { return w.kept().Calls == 1 && len(w.consumer.Health().Stuck) == 1 })
				w.dbAhead.Add(int64(10 * time.Minute))
				w.beat()
				w.until("the relay has its shards again, and nothing to do",
					func() bool { b := w.backlog(); return b.Free == 0 && b.Pending == 0 })
			},
			func(w *world) {
				w.silent.Store(false)
				w.until("it is settled", func() bool { return w.kept().Calls == 0 })
			}, 6 * time.Minute},
		{"SkaldPartitionPaused",
			func(w *world) {
				gate := make(chan struct{})
				w.gate.Store(&gate)
				for range 2 * maxHeld {
					w.say("orders", 0)
				}
				w.until("the partition is paused",
					func() bool { return len(w.consumer.Health().Paused) == 1 && w.backlog().Pending == 0 })
			},
			func(w *world) {
				close(*w.gate.Swap(nil))
				w.until("it goes on",
					func() bool {
						h := w.consumer.Health()
						return len(h.Paused) == 0 &&
							h.Unacknowledged == 0
					})
			}, 11 * time.Minute},
		{"SkaldConsumerStopped",
			func(w *world) {
				w.bad.Store(true)
				for i := range least {
					// each of a key of its own: behind the first of one the others would only wait
					w.sayOf(fmt.Sprintf("order-%d", i))
				}
				w.until("the consumer is stopped",
					func() bool { return w.consumer.Health().Stopped != "" && w.backlog().Pending == 0 })
			},
			func(w *world) {
				w.bad.Store(false)
				w.until("it goes on",
					func() bool { return w.consumer.Health().Stopped == "" && w.kept().Parked == 0 })
			}, 2 * time.Minute},
		{"SkaldConsumerGone",
			func(w *world) {
				w.stop("consumer")
				w.later(4 * time.Minute)
			},
			func(w *world) {
				w.startConsumer()
				w.until("it was heard of", func() bool { return w.standing().LastHeartbeat < time.Minute })
			}, 2 * time.Minute},
		{"SkaldConsumerLag",
			func(w *world) {
				gate := make(chan struct{})
				w.gate.Store(&gate)
				w.say("orders", 0)
				w.until("it is in hand",
					func() bool {
						return w.backlog().Pending == 0 &&
							w.consumer.Health().Unacknowledged == 1
					})
				w.later(6 * time.Minute)
				w.beat()
			},
			func(w *world) {
				close(*w.gate.Swap(nil))
				w.until("it goes on", func() bool { return w.consumer.Health().Unacknowledged == 0 })
				w.progress()
			}, 3 * time.Minute},
		{"SkaldRelayDeaf",
			func(w *world) { w.deaf.Store(true) },
			func(w *world) { w.deaf.Store(false) }, 6 * time.Minute},
		{"SkaldSagaStuck",
			func(w *world) {
				w.moveSaga(w.startSaga(), store.SagaStatus{Status: "running", Stuck: true},
					false)
			},
			(*world).endSaga, 2 * time.Minute},
		{"SkaldSagaFailing",
			func(w *world) {
				w.moveSaga(w.startSaga(), store.SagaStatus{Status: "running", Failed: 9, Error: "a deadlock",
					Since: time.Now().Add(-20 * time.Minute), Retry: time.Now().Add(time.Hour)}, false)
			},
			(*world).endSaga, 3 * time.Minute},
		{"SkaldSagaOverdue", // there is no engine
			func(w *world) {
				w.startSaga()
				w.later(2 * time.Minute)
				w.beat()
			},
			(*world).endSaga, 3 * time.Minute},
		{"SkaldSagasUncounted",
			func(w *world) { w.uncountable.Store(true) },
			func(w *world) { w.uncountable.Store(false) }, 11 * time.Minute},
		{"SkaldTrackedOverdue", // nobody takes the payment
			func(w *world) {
				w.track("placed")
				w.later(2 * time.Minute)
				w.beat()
			},
			func(w *world) { w.track("paid") }, 3 * time.Minute},
		{"SkaldTrackedDrift",
			func(w *world) { w.track("placed", "stolen") },
			func(w *world) {
				w.later(25 * time.Hour)
				w.track("paid")
				w.beat()
				w.progress()
				w.maintain()
			}, 6 * time.Minute},
		{"SkaldReservationExpired",
			func(w *world) {
				w.reserve("gone", 0)
				w.until("its lease has ended",
					func() bool { r := w.backlog().Reserved; return len(r) == 1 && r[0].Expired == 1 })
			},
			func(w *world) { // a repeat of the request
				again := w.reserve("again", time.Hour)
				if stood, err := w.db.Apply(w.t.Context(), store.Effect{Reservation: &again}); err != nil ||
					!stood[0] {
					w.t.Errorf("it is not given back: %v, %v", stood, err)
				}
			}, 6 * time.Minute},
		{"SkaldBlind", (*world).stopAll, (*world).startAll, 11 * time.Minute},
	}
}

// Each alert fires when what it is for happens, alone, and ends when it is repaired.
func TestEachAlertFires(t *testing.T) {
	for _, i := range incidents() {
		t.Run(i.alert, func(t *testing.T) {
			w := newWorld(t)
			for range 3 {
				w.say("orders", 0)
			}
			w.until("they are handled",
				func() bool { return w.consumer.Health().Handled == 3 && w.backlog().Pending == 0 })
			if got := w.pass(15 * time.Minute); len(got) > 0 {
				t.Fatalf("while all is well %v fire", names(got))
			}
			i.happen(w)
			want := []string{i.alert}
			if i.alert == "SkaldQuarantineFull" {
				want = []string{"SkaldConflict", i.alert}
			}
			if got := names(w.pass(i.lasts)); !slices.Equal(got, want) {
				t.Errorf("%v fire", got)
			}
			i.repair(w)
			if got := w.pass(2 * time.Minute); len(got) > 0 {
				t.Errorf("once it is repaired %v fire", names(got))
			}
		})
	}
	for _, r := range newProm(t).rules {
		if !slices.ContainsFunc(incidents(), func(i incident) bool { return i.alert == r.Alert }) {
			t.Errorf("%s is fired by no test", r.Alert)
		}
	}
}

func names(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

// Each alert has its section for the person on call.
func TestEachAlertIsInTheRunbook(t *testing.T) {
	page := string(readFile(t, "../docs/operations.md"))
	for _, r := range newProm(t).rules {
		if !strings.Contains(page, "\n### "+r.Alert+"\n") {
			t.Errorf("docs/operations.md has no section %s", r.Alert)
		}
		at, err := url.Parse(r.Annotations["runbook_url"])
		if err != nil || at.Scheme != "https" || at.Host == "" ||
			!strings.HasSuffix(at.Path, "/docs/operations.md") || at.Fragment != strings.ToLower(r.Alert) {
			t.Errorf("%s has the runbook_url %q: %v", r.Alert, r.Annotations["runbook_url"], err)
		}
	}
}

// One living source does not speak for another: whose processes are all gone is named.
func TestBlindnessIsOfEachSource(t *testing.T) {
	p := newProm(t)
	age := func(source string) []*dto.MetricFamily {
		name, kind, label, v := "skald_outbox_message_oldest_age_seconds", dto.MetricType_GAUGE, "source", 0.
		return []*dto.MetricFamily{{Name: &name, Type: &kind,
			Metric: []*dto.Metric{{Label: []*dto.LabelPair{{Name: &label, Value: &source}},
				Gauge: &dto.Gauge{Value: &v}}}}}
	}
	pass := func(d time.Duration, billing []*dto.MetricFamily) map[string]bool {
		var firing map[string]bool
		for end := p.now.Add(d); p.now.Before(end); {
			p.now = p.now.Add(scrapeEvery)
			p.scrape("orders", age("/orders"))
			p.scrape("billing", billing)
			firing = p.evaluate()
		}
		return firing
	}
	if got := pass(15*time.Minute, age("/billing")); len(got) > 0 {
		t.Errorf("while both are there %v fire", names(got))
	}
	if got := pass(11*time.Minute, nil); !got["SkaldBlind"] {
		t.Error("nothing says that nobody reports /billing")
	}
	for _, r := range p.rules {
		if r.Alert != "SkaldBlind" {
			continue
		}
		if got := p.query(r.Expr); len(got) != 1 || got[0].Metric.Get("source") != "/billing" {
			t.Errorf("it speaks of %v", got)
		}
	}
}
