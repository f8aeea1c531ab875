// Package startup is what stations say when they begin: which database and which broker they work on, and
// which of these they reach over a network without TLS.
package startup

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
)

// Name is how a store or a broker is named in a log: it says so itself, without secrets, or its type has to
// do.
func Name(v any) string {
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

// Unencrypted names the hosts that v may speak to without TLS; of what does not know: none.
func Unencrypted(v any) []string {
	if w, ok := v.(Wire); ok {
		return w.Unencrypted()
	}
	return nil
}

// Remedy says what to do about such hosts.
const Remedy = "give sslmode=verify-full to PostgreSQL, tls=on or ca=FILE to a broker: passwords and payloads can be read on the way"

// WarnUnencrypted says once for each of vs to which hosts it speaks without TLS.
func WarnUnencrypted(ctx context.Context, log *slog.Logger, what string, vs ...any) {
	for _, v := range vs {
		if hosts := Unencrypted(v); len(hosts) > 0 {
			log.WarnContext(ctx, what, "to", Name(v), "hosts", hosts, "remedy", Remedy)
		}
	}
}

// Loopback tells whether host, with a port or without, is this machine. A path is a Unix socket.
func Loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "" || host == "localhost" || strings.HasPrefix(host, "/") ||
		strings.HasPrefix(host, "@") || ip != nil && ip.IsLoopback()
}

// Far are the hosts of "host:port,host:port" that are not this machine.
func Far(hosts ...string) []string {
	out := slices.DeleteFunc(slices.Clone(hosts), Loopback)
	if len(out) == 0 {
		return nil
	}
	return out
}
