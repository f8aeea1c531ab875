// Detection of requests from this machine.

package endpoint

import (
	"net"
	"net/http"
	"strings"
)

// FromThisMachine reports whether r comes from this machine and names this machine as host. A request with
// proxy headers, or with another host, may come from anywhere.
func FromThisMachine(r *http.Request) bool {
	return loopback(r.RemoteAddr) && loopback(r.Host) && r.ProtoAtLeast(1, 1) && !passedOn(r.Header)
}

// passedOn reports whether a proxy's headers are present. A proxy without headers looks like a client,
// except that nginx uses HTTP/1.0 by default.
func passedOn(h http.Header) bool {
	for name := range h {
		switch {
		case strings.HasPrefix(name, "X-Forwarded-"), name == "Forwarded", name == "Via", name == "X-Real-Ip",
			name == "X-Client-Ip", name == "X-Cluster-Client-Ip", name == "True-Client-Ip",
			name == "Cf-Connecting-Ip":
			return true
		}
	}
	return false
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
