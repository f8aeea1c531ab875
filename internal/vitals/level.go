package vitals

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"

	"github.com/skald-go/skald/broker"
)

// Level returns the log level for an error of a database after which the work is retried: ERROR if only other
// settings cure it, for example a wrong password or an unknown database, otherwise WARN.
func Level(err error) slog.Level {
	var refusal interface {
		error
		SQLState() string
	}
	if !errors.As(err, &refusal) {
		return slog.LevelWarn
	}
	switch code := refusal.SQLState(); {
	case strings.HasPrefix(code, "28"), code == "3D000", code == "42501":
		return slog.LevelError
	case code == "08P01": // PgBouncer uses this code for each of its refusals
		for _, text := range []string{"no such database", "no such user", "authentication failed"} {
			if strings.Contains(refusal.Error(), text) {
				return slog.LevelError
			}
		}
	}
	return slog.LevelWarn
}

// BrokerLevel is Level for an error of a broker. Each driver wraps broker.ErrUnavailable into an outage.
// Other errors are refusals by the broker: a missing right, a setting of a stream or queue, a group of
// another database. A missing topic is a WARN, because it may be created while Skald waits.
func BrokerLevel(err error) slog.Level {
	var line net.Error
	for _, passes := range []error{broker.ErrUnavailable, broker.ErrNoTopic, broker.ErrRecreated,
		broker.ErrClosed, broker.ErrHeldBack, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, passes) {
			return slog.LevelWarn
		}
	}
	if errors.As(err, &line) {
		return slog.LevelWarn
	}
	return slog.LevelError
}
