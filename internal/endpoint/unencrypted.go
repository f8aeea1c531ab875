// This file names the servers of a process in its log, and warns of connections without TLS and of connects
// without a bound.

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

// DriverName is how a store or a broker is named in a log: it says so itself, without secrets, or its type
// has to do.
func DriverName(v any) string {
	if s, ok := v.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", v)
}

// A Wire is a store or a broker that knows over which connections it speaks without TLS.
type Wire interface {
	// Unencrypted names the hosts, not those of this machine, that may be spoken to without TLS.
	Unencrypted() []string
}

// unencrypted names the hosts that v may speak to without TLS; of what does not know: none.
func unencrypted(v any) []string {
	if w, ok := v.(Wire); ok {
		return w.Unencrypted()
	}
	return nil
}

// EncryptRemedy says what to do about such hosts.
const EncryptRemedy = "give sslmode=verify-full to PostgreSQL, tls=on or ca=FILE to a broker: passwords and payloads can be read on the way"

// Warn logs for each of vs the hosts that it reaches without TLS, and connects without a bound. The lines
// begin with part, the caller's part of Skald.
func Warn(ctx context.Context, log *slog.Logger, part string, vs ...any) {
	for _, v := range vs {
		if hosts := unencrypted(v); len(hosts) > 0 {
			log.WarnContext(ctx, part+": no TLS", "to", DriverName(v), "hosts", hosts,
				"remedy", EncryptRemedy)
		}
		if d, ok := v.(Dialer); ok {
			if most, slow := d.SlowConnect(); slow {
				log.WarnContext(ctx,
					part+": a connect to a silent server takes long, and uses a place of the pool",
					"to", DriverName(v), "connect_timeout", most, "remedy", ConnectRemedy)
			}
		}
	}
}

// Dialer is a store with a pool of connections.
type Dialer interface {
	// SlowConnect reports whether a connect of the pool may take more than 30 s, or has no bound, which most
	// 0 is. It returns false after the first call: one warning is enough.
	SlowConnect() (most time.Duration, slow bool)
}

// ConnectRemedy is the remedy for such a pool.
const ConnectRemedy = "add connect_timeout=5 to the URL of the pool, or set ConnConfig.ConnectTimeout"

// IsLoopback tells whether host, with a port or without, is this machine. A path is a Unix socket.
func IsLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "" || host == "localhost" || strings.HasPrefix(host, "/") ||
		strings.HasPrefix(host, "@") || ip != nil && ip.IsLoopback()
}

// NotLoopback are the hosts of "host:port,host:port" that are not this machine.
func NotLoopback(hosts ...string) []string {
	out := slices.DeleteFunc(slices.Clone(hosts), IsLoopback)
	if len(out) == 0 {
		return nil
	}
	return out
}
