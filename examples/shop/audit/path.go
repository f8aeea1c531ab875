package audit

import "fmt"

// Subscribers returns the services that handle a type, in the choreographed or the orchestrated shop. It is
// the auditor's own list; a test compares it with the services.
func Subscribers(kind string, orchestrated bool) []string {
	if orchestrated {
		switch kind {
		case "order.placed":
			return []string{"analytics"}
		case "payment.charge":
			return []string{"payment"}
		case "payment.refund":
			return []string{"payment", "fulfilment"}
		case "stock.reserve", "stock.release":
			return []string{"inventory"}
		case "parcel.ship":
			return []string{"fulfilment"}
		case "payment.taken", "stock.reserved", "parcel.failed", "parcel.stopped":
			return []string{"order", "analytics"}
		case "stock.short":
			return []string{"order", "fulfilment", "analytics"}
		}
	}
	switch kind {
	case "order.placed":
		return []string{"payment", "analytics"}
	case "order.confirmed", "order.cancelled":
		return []string{"notification", "analytics"}
	case "payment.taken":
		return []string{"order", "inventory", "analytics"}
	case "payment.refunded", "stock.released", "parcel.shipped", "parcel.gone", "change.taken",
		"change.undone":
		return []string{"order", "analytics"}
	case "stock.reserved", "payment.declined", "change.paid", "change.declined":
		return []string{"order", "fulfilment", "analytics"}
	case "stock.short":
		return []string{"order", "payment", "fulfilment", "analytics"}
	case "change.refused":
		return []string{"order", "payment", "analytics"}
	case "parcel.failed", "parcel.stopped":
		return []string{"order", "payment", "inventory", "analytics"}
	case "order.cancel_asked":
		return []string{"fulfilment", "analytics"}
	case "order.change_asked":
		return []string{"payment", "fulfilment", "analytics"}
	}
	return nil
}

// command reports whether a saga sends this type.
func command(kind string) bool {
	switch kind {
	case "payment.charge", "payment.refund", "stock.reserve", "stock.release", "parcel.ship":
		return true
	}
	return false
}

func (b *books) service(name string) *service {
	for _, s := range b.services {
		if s.name == name {
			return s
		}
	}
	return &service{name: name}
}

// deliveredToAll checks that each committed message is marked by each service that handles its type.
func (b *books) deliveredToAll() Invariant {
	var f findings
	sent := 0
	for _, from := range b.services {
		sent += len(from.outbox)
		for _, m := range from.outbox {
			for _, name := range Subscribers(m.kind, len(b.sagas) > 0) {
				_, ok := b.service(name).marks[m.identity]
				f.hold(ok, "order %s: %s of %s (row %d) has not reached %s", m.key, m.kind, from.name,
					m.seq, name)
			}
		}
	}
	return f.verdict("delivered_to_all", fmt.Sprintf("%d messages, %d deliveries", sent, f.checked))
}

// orderPerKey checks that each consumer took the messages of one topic and key in the order in which they
// were committed. Commands are checked separately. An engine locks the row of the saga when it writes a
// command; other messages of the order are written under a lock on the row of the order. So a command and
// another message have no order between them.
func (b *books) orderPerKey() Invariant {
	var f findings
	type line struct {
		source, topic, key string
		command            bool
	}
	for _, to := range b.services {
		for _, from := range b.services {
			last := map[line]message{}
			for _, m := range from.outbox { // by seq
				took, ok := to.marks[m.identity]
				if !ok {
					continue
				}
				l := line{m.source, m.topic, m.key, command(m.kind)}
				before, had := last[l]
				last[l] = m
				f.hold(!had || to.marks[before.identity].arrival < took.arrival,
					"order %s: %s took %s (row %d) before %s (row %d)", m.key, to.name, m.kind, m.seq,
					before.kind, before.seq)
			}
		}
	}
	return f.verdict("order_per_key", fmt.Sprintf("%d first deliveries", f.checked))
}

// changeRefused undoes the charge of a change. The other undoing messages undo a step of the order.
const changeRefused = "change.refused"

// undoes reports whether a message undoes a step of the service, if that step took effect.
func undoes(service, kind string) bool {
	switch kind {
	case "stock.short", changeRefused, "payment.refund":
		return service == "payment"
	case "stock.release":
		return service == "inventory"
	case "parcel.failed", "parcel.stopped":
		return service == "payment" || service == "inventory"
	}
	return false
}

// effectOnce checks that each message marked as done has one journal note, which is written with its
// effect. A rejected or barred message has none, and no note lacks a mark. Of the messages that undo a
// step, one has a note if the step was undone. Steps are counted for the order and for each of its changes.
func (b *books) effectOnce() Invariant {
	var f findings
	sent := b.messages()
	type work struct {
		order  string
		change bool
	}
	for _, s := range b.services {
		notes, undone, undo := map[identity][]note{}, map[work]int{}, map[work]int{}
		for _, n := range s.journal {
			notes[n.identity] = append(notes[n.identity], n)
		}
		for id, m := range s.marks {
			want := 0
			if m.outcome == "done" {
				want = 1
			}
			of := notes[id]
			delete(notes, id)
			if sent[id].kind == "" && undoesAny(s.name) {
				continue // unknown whether there was something to undo
			}
			if undoes(s.name, sent[id].kind) {
				undone[work{sent[id].key, sent[id].kind == changeRefused}] += len(of)
				want = min(want, len(of))
			}
			f.hold(len(of) == want, "%s: %s has %d effects instead of %d of message %s", sent[id].about(),
				s.name, len(of), want, id.id)
		}
		for of, state := range s.steps {
			w := work{of.order, of.change != ""}
			undo[w] += 0
			if state == "undone" {
				undo[w]++
			}
		}
		for w, n := range undo {
			f.hold(undone[w] == n, "order %s: %d of its steps at %s are undone (changes: %t), by %d effects",
				w.order, n, s.name, w.change, undone[w])
			delete(undone, w)
		}
		for w, n := range undone {
			f.hold(n == 0, "order %s: %s undid %d times a step that was not taken", w.order, s.name, n)
		}
		for id, of := range notes {
			f.hold(false, "order %s: %s has %d effects of %s %s and no mark", of[0].order, s.name, len(of),
				of[0].kind, id.id)
		}
	}
	return f.verdict("effect_once", fmt.Sprintf("%d messages taken", f.checked))
}

// undoesAny reports whether a service undoes steps at all.
func undoesAny(service string) bool {
	return undoes(service, "parcel.failed")
}

// about names the order of m. The kind is empty if m is in no outbox and no journal.
func (m message) about() string {
	if m.kind == "" {
		return "order unknown"
	}
	return "order " + m.key
}

// messages returns the messages of all outboxes, and those found only in journals: their row was purged, or
// they were published without one.
func (b *books) messages() map[identity]message {
	out := map[identity]message{}
	for _, s := range b.services {
		for _, n := range s.journal {
			out[n.identity] = message{identity: n.identity, key: n.order, kind: n.kind}
		}
	}
	for _, s := range b.services {
		for _, m := range s.outbox {
			out[m.identity] = m
		}
	}
	return out
}
