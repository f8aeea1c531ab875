package vitals

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"

	"github.com/skald-go/skald/broker"
)

// Level returns the log level for an error of a database, if Skald retries the work. It is ERROR if only a
// change of the settings helps, for example after a wrong password or for an unknown database. Otherwise it
// is WARN.
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

// BrokerLevel is Level for an error of a broker. It returns WARN for an outage, which each driver marks with
// broker.ErrUnavailable, and for a missing topic, which may be created while Skald waits. Other errors are
// refusals by the broker, such as a missing right or a group of another database.
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
