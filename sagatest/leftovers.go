package sagatest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Leftovers is a set of kinds of messages that Drain may leave. Join several with |.
type Leftovers uint8

// Kinds of messages.
const (
	Parked      Leftovers = 1 << iota // messages that wait for a retry, or for another message of their key
	Dead                              // dead letters
	Quarantined                       // messages in quarantine that were not admitted
	// Rows are outbox rows that no relay of the test published, or that the broker refused.
	Rows
)

// mostNamed limits the messages that an error lists.
const mostNamed = 3

// backlogger is a Stepper that reports the backlog of its database, as relays and inboxes do.
type backlogger interface {
	Backlog(ctx context.Context) (store.Backlog, error)
}

// keeper is a Stepper that stores messages that did not take effect, as inboxes do.
type keeper interface {
	Stored(ctx context.Context, limit int) ([]store.Parked, error)
}

// leftBy returns an error about messages that are left, or nil. It ignores messages of the allowed kinds.
func leftBy(ctx context.Context, allowed Leftovers, steppers []skald.Stepper) error {
	var found []string
	for _, s := range steppers {
		b, can := s.(backlogger)
		if !can {
			continue
		}
		back, err := b.Backlog(ctx)
		if err != nil {
			return fmt.Errorf("drain: %T: what is left: %w", s, err)
		}
		one := leftOf(back, allowed)
		if k, can := s.(keeper); can && len(back.PerConsumer) > 0 && allowed&(Parked|Dead) != Parked|Dead {
			named, err := k.Stored(ctx, mostNamed)
			if err != nil {
				return fmt.Errorf("drain: %T: what is left: %w", s, err)
			}
			one = append(one, namedOf(named, allowed)...)
		}
		for _, text := range one {
			if !slices.Contains(found, text) {
				// A relay and an inbox on one database report the same rows.
				found = append(found, text)
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s (a test that expects this uses DrainAllowing)", ErrLeft,
		strings.Join(found, "; "))
}

func leftOf(b store.Backlog, may Leftovers) (found []string) {
	say := func(what Leftovers, n int64, format string, args ...any) {
		if n > 0 && may&what == 0 {
			found = append(found, fmt.Sprintf(format, append([]any{n}, args...)...))
		}
	}
	say(Rows, b.Pending,
		"%d rows of the outbox of %q are published by no relay: give Drain the relay of this database",
		b.Source)
	say(Rows, b.Deferred,
		"%d rows of the outbox of %q were deferred, because the broker refused them: does their topic exist?",
		b.Source)
	for _, k := range b.PerConsumer {
		say(Parked, k.Parked, "%d messages are parked for %s", k.Consumer)
		say(Dead, k.Dead, "%d dead letters of %s", k.Consumer)
		say(Quarantined, k.Conflicts+k.TooOld,
			"%d messages in quarantine for %s, %d of them under an id of another message", k.Consumer,
			k.Conflicts)
	}
	return found
}

// namedOf returns a text about each message, with the first line of its last error.
func namedOf(ps []store.Parked, may Leftovers) (found []string) {
	for i := range ps {
		p, kind := &ps[i], Parked
		if p.Dead != nil {
			kind = Dead
		}
		if may&kind == 0 && p.Last.Why != "" {
			why, _, _ := strings.Cut(p.Last.Why, "\n")
			found = append(found, fmt.Sprintf("%.100s (%.100s): %s", p.ID, p.Message.Type, why))
		}
	}
	return found
}
