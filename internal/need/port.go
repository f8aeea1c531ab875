package need

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreePort is a port of 127.0.0.1 that nobody listens on, below those that systems hand out by themselves:
// nobody else gets it between two sessions of a server that is to come back at its address.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}
