// This file detects requests that come from this machine.

package endpoint

import (
	"net"
	"net/http"
	"strings"
)

// FromThisMachine tells whether r comes from this machine and names this machine. One that a proxy passed
// on, or that names another host, may be anybody's.
func FromThisMachine(r *http.Request) bool {
	return loopback(r.RemoteAddr) && loopback(r.Host) && r.ProtoAtLeast(1, 1) && !passedOn(r.Header)
}

// passedOn tells of the marks of a proxy. One that leaves none cannot be told from a client, but that nginx
// speaks HTTP/1.0 unless told otherwise.
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
