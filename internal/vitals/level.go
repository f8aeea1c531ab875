package vitals

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"

	"github.com/skald-go/skald/broker"
)

// Level returns how an error of a database is logged that is tried again: as an ERROR if only new settings
// cure it, such as a wrong password or an unknown database, else as a WARN.
func Level(err error) slog.Level {
	var answered interface {
		error
		SQLState() string
	}
	if !errors.As(err, &answered) {
		return slog.LevelWarn
	}
	switch code := answered.SQLState(); {
	case strings.HasPrefix(code, "28"), code == "3D000", code == "42501":
		return slog.LevelError
	case code == "08P01": // PgBouncer's for all that it refuses
		for _, said := range []string{"no such database", "no such user", "authentication failed"} {
			if strings.Contains(answered.Error(), said) {
				return slog.LevelError
			}
		}
	}
	return slog.LevelWarn
}

// BrokerLevel is Level of an error of a broker. Each driver wraps broker.ErrAway into an outage. All else is
// the broker's refusal: a right, a setting of a stream or queue, a group of another database. A topic that
// does not exist yet may be made while Skald waits.
func BrokerLevel(err error) slog.Level {
	var line net.Error
	for _, passes := range []error{broker.ErrAway, broker.ErrNoTopic, broker.ErrRecreated, broker.ErrClosed,
		broker.ErrHeldBack, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, passes) {
			return slog.LevelWarn
		}
	}
	if errors.As(err, &line) {
		return slog.LevelWarn
	}
	return slog.LevelError
}
