// This file warns about connections without TLS, and about pools without a connect timeout.

package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"
)

// DriverName returns the name of a store or a broker for logs: the result of its method String, or its type.
// The name contains no password.
func DriverName(v any) string {
	if s, ok := v.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", v)
}

// Wire is a store or a broker that can list its connections without TLS.
type Wire interface {
	// Unencrypted returns the remote hosts that may be reached without TLS.
	Unencrypted() []string
}

// unencrypted returns the hosts that v may reach without TLS. It returns nil if v is not a Wire.
func unencrypted(v any) []string {
	if w, ok := v.(Wire); ok {
		return w.Unencrypted()
	}
	return nil
}

// EncryptRemedy is the remedy for connections without TLS.
const EncryptRemedy = "give sslmode=verify-full to PostgreSQL, tls=on or ca=FILE to a broker: passwords and payloads can be read on the way"

// Warn logs a warning for each of vs with hosts without TLS, or with a pool without a connect timeout. The
// lines begin with the name of the component.
func Warn(ctx context.Context, log *slog.Logger, component string, vs ...any) {
	for _, v := range vs {
		if hosts := unencrypted(v); len(hosts) > 0 {
			log.WarnContext(ctx, component+": no TLS", "to", DriverName(v), "hosts", hosts,
				"remedy", EncryptRemedy)
		}
		if d, ok := v.(Dialer); ok {
			if most, slow := d.SlowConnect(); slow {
				log.WarnContext(ctx,
					component+": a connect to a silent server takes long, and uses a place of the pool",
					"to", DriverName(v), "connect_timeout", most, "remedy", ConnectRemedy)
			}
		}
	}
}

// Dialer is a store with a pool of connections.
type Dialer interface {
	// SlowConnect reports whether a connect of the pool may take more than 30 s. most is the connect
	// timeout, or 0 without a timeout. After the first call SlowConnect returns false, so that the warning
	// appears once.
	SlowConnect() (most time.Duration, slow bool)
}

// ConnectRemedy is the remedy for a pool with slow connects.
const ConnectRemedy = "add connect_timeout=5 to the URL of the pool, or set ConnConfig.ConnectTimeout"

// IsLoopback reports whether host, with or without a port, is this machine. The path of a Unix socket also
// counts as this machine.
func IsLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "" || host == "localhost" || strings.HasPrefix(host, "/") ||
		strings.HasPrefix(host, "@") || ip != nil && ip.IsLoopback()
}

// NotLoopback returns the hosts that are not this machine.
func NotLoopback(hosts ...string) []string {
	out := slices.DeleteFunc(slices.Clone(hosts), IsLoopback)
	if len(out) == 0 {
		return nil
	}
	return out
}
