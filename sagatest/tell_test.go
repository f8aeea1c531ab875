package sagatest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// TestOnFaultGetsTheMessages: the function of OnFault is called once for each fault that affects messages,
// with the messages.
func TestOnFaultGetsTheMessages(t *testing.T) {
	t.Parallel()
	id := store.Identity{Source: "/s", ID: "m1"}
	msg := []skald.Message{{Source: "/s", ID: "m1", Topic: "t", Key: []byte("k"), Type: "x",
		Data: []byte("{}")}}
	mark := store.Mark{Consumer: "c", Identity: id, Outcome: store.Done}
	begin := func(d db) error {
		u, err := d.Begin(t.Context(), store.Intake{Marks: []store.Mark{mark}})
		if err != nil {
			return err
		}
		return u.Commit(t.Context())
	}
	instead := func(d db) error {
		u, err := d.Begin(t.Context(), store.Intake{Marks: []store.Mark{mark}})
		if err == nil {
			_, err = u.Rollback(t.Context(), store.Effect{Mark: &mark})
		}
		return err
	}
	publish := func(b broker.Broker) error {
		p := b.Publish(t.Context(), msg)
		return errors.Join(p.Wait(t.Context()), p.Wait(t.Context()))
	}
	for kind, c := range map[string]struct {
		rates   sagatest.Rates
		store   func(db) error
		publish bool
		receive int // deliveries
	}{
		sagatest.BeginFailed:    {rates: sagatest.Rates{BeginFails: 1}, store: begin},
		sagatest.CommitFailed:   {rates: sagatest.Rates{CommitFails: 1}, store: begin},
		sagatest.CommitUnknown:  {rates: sagatest.Rates{CommitUnknown: 1}, store: begin},
		sagatest.ApplyUnknown:   {rates: sagatest.Rates{ApplyUnknown: 1}, store: instead},
		sagatest.Death:          {rates: sagatest.Rates{Die: 1}, store: begin},
		sagatest.PublishFailed:  {rates: sagatest.Rates{PublishFails: 1}, publish: true},
		sagatest.PublishUnknown: {rates: sagatest.Rates{PublishUnknown: 1}, publish: true},
		sagatest.Repeated:       {rates: sagatest.Rates{Repeat: 1}, receive: 2},
		sagatest.AckLost:        {rates: sagatest.Rates{AckLost: 1}, receive: 1},
		sagatest.AckUnknown:     {rates: sagatest.Rates{AckUnknown: 1}, receive: 1},
	} {
		t.Run(kind, func(t *testing.T) {
			var told []sagatest.Injection
			session := sagatest.NewFaults(1, c.rates).Session()
			session.OnFault(func(i sagatest.Injection) { told = append(told, i) })
			bus := membroker.New(nil)
			if err := bus.MakeTopics(t.Context(), 1, "t"); err != nil {
				t.Fatal(err)
			}
			bad := sagatest.WrapBroker(bus.Client(), session)
			var err error
			switch {
			case c.store != nil:
				err = c.store(sagatest.WrapDriver[*memstore.Tx](memstore.New(nil), session))
			case c.publish:
				err = publish(bad)
			default:
				err = publish(bus)
				acked(t, bad, c.receive)
			}
			if fault := (*sagatest.FaultError)(nil); err != nil && !errors.As(err, &fault) && !c.publish {
				t.Fatal(err)
			}
			if len(told) != 1 || told[0].Kind != kind ||
				!slices.Equal(told[0].Messages, []store.Identity{id}) {
				t.Errorf("reported %+v, without %s of %v", told, kind, id)
			}
		})
	}
}

// acked receives want deliveries and acknowledges them.
func acked(t *testing.T, b broker.Broker, want int) {
	t.Helper()
	s, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	for got := 0; got < want; {
		select {
		case <-s.Ready():
		case <-t.Context().Done():
			t.Fatal("nothing comes")
		}
		batch, err := s.Receive(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		got += len(batch.Deliveries)
		if len(batch.Deliveries) > 0 {
			_ = s.Ack(t.Context(), batch.Deliveries) // possibly with the fault
		}
	}
}

// TestFailHandler: FailHandler panics, fails and gives up, by the rates, and reports each message. It does so
// only in a Session.
func TestFailHandler(t *testing.T) {
	m := skald.Message{Source: "/s", ID: "1"}
	upset := func(f *sagatest.Faults) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v", v)
			}
		}()
		return f.FailHandler(m)
	}
	for kind, rates := range map[string]sagatest.Rates{
		sagatest.HandlerPanic: {HandlerPanics: 1}, sagatest.HandlerFailed: {HandlerFails: 1},
		sagatest.HandlerGaveUp: {HandlerGivesUp: 1},
	} {
		f := sagatest.NewFaults(1, rates)
		if err := upset(f); err != nil {
			t.Errorf("%s: %v, without Die", kind, err)
		}
		var told []sagatest.Injection
		session := f.Session()
		session.OnFault(func(i sagatest.Injection) { told = append(told, i) })
		err := upset(session)
		var fault *sagatest.FaultError
		var final *skald.PermanentError
		if err == nil || errors.As(err, &fault) ||
			errors.As(err, &final) != (kind == sagatest.HandlerGaveUp) ||
			strings.HasPrefix(err.Error(), "panic: ") != (kind == sagatest.HandlerPanic) {
			t.Errorf("%s: %v", kind, err)
		}
		if len(told) != 1 || told[0].Kind != kind || f.Counts()[kind] != 1 {
			t.Errorf("%s: reported %+v, counted %v", kind, told, f.Counts())
		}
	}
}
