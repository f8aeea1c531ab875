// This file detects requests from this machine.

package endpoint

import (
	"net"
	"net/http"
	"strings"
)

// FromThisMachine reports whether r comes directly from this machine, and has this machine as its Host. A
// request with the headers of a proxy may come from another machine. A request with another Host may come
// from a page of another site in a local browser.
func FromThisMachine(r *http.Request) bool {
	return loopback(r.RemoteAddr) && loopback(r.Host) && r.ProtoAtLeast(1, 1) && !passedOn(r.Header)
}

// passedOn reports whether a request has headers of a proxy. A proxy that adds no headers cannot be detected,
// except nginx, which uses HTTP/1.0 by default.
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
