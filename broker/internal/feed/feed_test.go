package feed_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

type part struct {
	feed.Holding
	feed.Buffer
}

func open(index int, messages ...int64) *part {
	p := &part{Holding: feed.Holding{Partition: broker.Partition{Name: fmt.Sprintf("t/%d", index)},
		Topic: "t", Index: index}}
	p.fill(messages...)
	return p
}

func (p *part) fill(positions ...int64) {
	for _, at := range positions {
		p.Put(broker.Delivery{Partition: p.Name, Position: at})
	}
}

// told returns the next Batch as text.
func told(t *testing.T, f *feed.Feed[*part], max int) string {
	t.Helper()
	b, err := f.Receive(max)
	if err != nil {
		return err.Error()
	}
	out := ""
	for _, l := range b.Lost {
		out += fmt.Sprintf("-%s %v ", l.Name, l.Clean)
	}
	for _, l := range b.Gained {
		out += "+" + l.Name + " "
	}
	for _, d := range b.Deliveries {
		out += fmt.Sprintf("%s:%d ", d.Partition, d.Position)
	}
	return out
}

func is(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A partition with many messages does not starve the others.
func TestPartitionsTakeTurns(t *testing.T) {
	var mu sync.Mutex
	f := feed.New[*part](&mu)
	f.Gain(open(2, 1), open(0, 1, 2, 3, 4, 5, 6), open(1, 1))
	is(t, told(t, f, 2), "+t/0 +t/1 +t/2 t/0:1 t/0:2 ")
	is(t, told(t, f, 2), "t/1:1 t/2:1 ")
	is(t, told(t, f, 9), "t/0:3 t/0:4 t/0:5 t/0:6 ")
}

// A paused partition delivers nothing, and Ready signals after Resume. A loss ends the pause.
func TestPausesEnd(t *testing.T) {
	var mu sync.Mutex
	f := feed.New[*part](&mu)
	a, b := open(0, 1), open(1, 1)
	f.Gain(a, b)
	if changed := f.Pause("t/0", "t/7", "t/0"); !slices.Equal(changed, []*part{a}) {
		t.Errorf("paused %v", changed)
	}
	is(t, told(t, f, 9), "+t/0 +t/1 t/1:1 ")
	for len(f.Ready()) > 0 {
		<-f.Ready()
	}
	f.Resume("t/0")
	<-f.Ready()
	is(t, told(t, f, 9), "t/0:1 ")
	f.Pause("t/0")
	f.Lose(a, true)
	a.fill(2)
	f.Gain(a)
	is(t, told(t, f, 9), "-t/0 true +t/0 t/0:2 ")
}

// Each loss and gain is reported once, the loss first. A partition that is lost before its gain was
// reported is not reported.
func TestChangesAreReportedOnce(t *testing.T) {
	var mu sync.Mutex
	f := feed.New[*part](&mu)
	a, b := open(0), open(1)
	f.Gain(a, b)
	f.Lose(b, true)
	is(t, told(t, f, 9), "+t/0 ")
	f.Lose(a, false)
	if f.Lose(a, true) {
		t.Error("lost twice")
	}
	again := open(0, 1)
	again.Waiting = true
	f.Gain(again)
	is(t, told(t, f, 0), "-t/0 false ")
	again.Waiting = false
	is(t, told(t, f, 9), "+t/0 t/0:1 ")
	is(t, told(t, f, 9), "")
}

// An acknowledgement applies only to deliveries of this ownership.
func TestEarlierAcksAreIgnored(t *testing.T) {
	var mu sync.Mutex
	f := feed.New[*part](&mu)
	a := open(0, 4, 5, 6)
	f.Gain(a)
	ack := func(at ...int64) int {
		t.Helper()
		var ds []broker.Delivery
		for _, p := range at {
			ds = append(ds, broker.Delivery{Partition: "t/0", Position: p},
				broker.Delivery{Partition: "t/9", Position: p})
		}
		moved, err := f.Ack(ds)
		if err != nil {
			t.Fatal(err)
		}
		return len(moved)
	}
	if n := ack(9); n != 0 || a.Acked != 0 {
		t.Errorf("%d moved, to %d, of what was never delivered", n, a.Acked)
	}
	told(t, f, 2)
	if n := ack(9); n != 1 || a.Acked != 5 {
		t.Errorf("%d moved, to %d: 5 is the last that was delivered", n, a.Acked)
	}
	if n := ack(4); n != 0 || a.Acked != 5 {
		t.Errorf("%d moved, back to %d", n, a.Acked)
	}
}

// One acknowledgement of interleaved partitions returns each partition once.
func TestAcksByTurns(t *testing.T) {
	var mu sync.Mutex
	f := feed.New[*part](&mu)
	a, b := open(0, 1, 2), open(1, 1, 2)
	f.Gain(a, b)
	told(t, f, 4)
	var ds []broker.Delivery
	for at := range int64(2) {
		ds = append(ds, broker.Delivery{Partition: "t/0", Position: at + 1},
			broker.Delivery{Partition: "t/1", Position: at + 1})
	}
	moved, err := f.Ack(ds)
	if err != nil || len(moved) != 2 || a.Acked != 2 || b.Acked != 2 {
		t.Errorf("%d moved, to %d and %d: %v", len(moved), a.Acked, b.Acked, err)
	}
}

// A fault is returned once, before all else. After End every call returns the first reason.
func TestFaultsAndTheEnd(t *testing.T) {
	var mu sync.Mutex
	f := feed.New[*part](&mu)
	f.Gain(open(0))
	f.Fail(errors.New("outage"))
	is(t, told(t, f, 9), "outage")
	<-f.Ready()
	is(t, told(t, f, 9), "+t/0 ")
	if !f.End(errors.New("closed")) || f.End(errors.New("again")) {
		t.Error("there is one end")
	}
	is(t, told(t, f, 9), "closed")
	if _, err := f.Ack(nil); err == nil || err.Error() != "closed" {
		t.Errorf("ack: %v", err)
	}
}
