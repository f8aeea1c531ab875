package sample

// Later keeps what the customers of one client want behind their orders until its time has come. It is used
// by one goroutine.
type Later struct {
	Do func(id string, w Wish)

	waiting []waiting
}

type waiting struct {
	id string
	Wish
}

// Placed does what has waited for long enough, now that one more order is placed; this one's wish included.
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

// Rest does all that still waits.
func (l *Later) Rest() {
	for _, one := range l.waiting {
		l.Do(one.id, one.Wish)
	}
	l.waiting = nil
}
