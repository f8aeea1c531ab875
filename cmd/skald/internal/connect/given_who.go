package connect

import (
	"os"
	"os/user"
)

// Whoami is the user and the machine: who does what is noted, unless --by says it.
func Whoami() string {
	host, _ := os.Hostname() // or none
	if u, err := user.Current(); err == nil {
		return u.Username + "@" + host
	}
	return "@" + host
}
