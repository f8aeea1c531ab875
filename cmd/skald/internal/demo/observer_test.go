package demo

import (
	"strconv"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

func delivery(order, id string) broker.Delivery {
	return broker.Delivery{Message: skald.Message{ID: id, Key: []byte(order)}}
}

// What a group is given twice is a repeat; what two groups are given once is none. Orders that come late are
// not watched.
func TestWitness(t *testing.T) {
	w := newObserver()
	w.note("p.order", []broker.Delivery{delivery("o", "1"), delivery("o", "2")})
	w.note("p.payment", []broker.Delivery{delivery("o", "1")})
	if seen, again := w.Observed("o"); !seen || again {
		t.Errorf("before it comes again: seen %t, again %t", seen, again)
	}
	w.note("p.payment", []broker.Delivery{delivery("o", "1")})
	if seen, again := w.Observed("o"); !seen || !again {
		t.Errorf("once it has come again: seen %t, again %t", seen, again)
	}
	for i := range orders {
		w.note("p.order", []broker.Delivery{delivery(strconv.Itoa(i), strconv.Itoa(i))})
	}
	late := strconv.Itoa(orders - 1)
	if seen, _ := w.Observed(late); seen {
		t.Errorf("order %s is the first that is too many, and was watched", late)
	}
	all := w.Repeats("p")
	if _, watched := all[late]; watched || len(all) != orders || len(all["o"]) != 1 ||
		all["o"][0].Service != "payment" || all["o"][0].Message != "1" {
		t.Errorf("%d orders, %+v", len(all), all["o"])
	}
}
