package need

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreePort returns a free port of 127.0.0.1 below the range of ephemeral ports. So the system gives this port
// to no other program while a test restarts its server.
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
