package sample

// Later delays the customers' requests of one client. Only one goroutine may use it.
type Later struct {
	Do func(id string, w Wish)

	waiting []waiting
}

type waiting struct {
	id string
	Wish
}

// Placed is called after each order, with its request. It does the requests that are due.
func (l *Later) Placed(id string, w Wish) {
	if !w.None() {
		l.waiting = append(l.waiting, waiting{id, w})
	}
	kept := l.waiting[:0]
	for _, one := range l.waiting {
		if one.After == 0 {
			l.Do(one.id, one.Wish)
			continue
		}
		one.After--
		kept = append(kept, one)
	}
	l.waiting = kept
}

// Rest does all remaining requests.
func (l *Later) Rest() {
	for _, one := range l.waiting {
		l.Do(one.id, one.Wish)
	}
	l.waiting = nil
}
