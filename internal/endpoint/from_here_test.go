package endpoint

import (
	"net/http/httptest"
	"testing"
)

func TestIs(t *testing.T) {
	for _, c := range []struct {
		from, host, header string
		is                 bool
	}{
		{"127.0.0.1:4711", "localhost:8080", "", true},
		{"[::1]:4711", "[::1]", "", true},
		{"127.0.0.1:4711", "127.0.0.1:8080", "User-Agent", true},
		{"192.0.2.1:4711", "localhost", "", false},
		{"127.0.0.1:4711", "shop.example", "", false},
		{"", "localhost", "", false},
		{"127.0.0.1:4711", "localhost", "Forwarded", false},
		{"127.0.0.1:4711", "localhost", "Via", false},
		{"127.0.0.1:4711", "localhost", "X-Real-IP", false},
		{"127.0.0.1:4711", "localhost", "X-Forwarded-For", false},
		{"127.0.0.1:4711", "localhost", "X-Forwarded-Proto", false},
		{"127.0.0.1:4711", "localhost", "CF-Connecting-IP", false},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr, r.Host = c.from, c.host
		if c.header != "" {
			r.Header.Set(c.header, "x")
		}
		if FromThisMachine(r) != c.is {
			t.Errorf("from %q to %q with %q: %t", c.from, c.host, c.header, !c.is)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr, r.Host, r.ProtoMinor = "127.0.0.1:4711", "127.0.0.1:8080", 0
	if FromThisMachine(r) {
		t.Error("HTTP/1.0 is taken, as nginx speaks it")
	}
}
