// This file names the servers of a process in its log, and warns of connections without TLS.

package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
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

// WarnUnencrypted says once for each of vs to which hosts it speaks without TLS.
func WarnUnencrypted(ctx context.Context, log *slog.Logger, what string, vs ...any) {
	for _, v := range vs {
		if hosts := unencrypted(v); len(hosts) > 0 {
			log.WarnContext(ctx, what, "to", DriverName(v), "hosts", hosts, "remedy", EncryptRemedy)
		}
	}
}

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
