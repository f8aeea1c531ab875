package connect

import (
	"os"
	"os/user"
)

// Whoami returns user@host, the default author in the audit.
func Whoami() string {
	host, _ := os.Hostname() // empty if unknown
	if u, err := user.Current(); err == nil {
		return u.Username + "@" + host
	}
	return "@" + host
}
