package place

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/skald-go/skald/examples/shop/service"
)

// Elsewhere has the URLs of services in other processes, for the status of orders.
type Elsewhere map[string]string

// Add parses NAME=URL, the --answer address of a service's process.
func (e Elsewhere) Add(text string) error {
	name, at, _ := strings.Cut(text, "=")
	u, err := url.Parse(at)
	switch {
	case !slices.Contains(service.Names(), name):
		return &UsageError{What: fmt.Sprintf("unknown service %q: give NAME=URL with a NAME of %s", name,
			strings.Join(service.Names(), ", "))}
	case e[name] != "":
		return &UsageError{What: name + " is given twice: give one of its instances, they share a database"}
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" ||
		u.Fragment != "":
		return &UsageError{What: fmt.Sprintf(
			"invalid URL of %s: give %s=http://host:port, the --answer address of its process", name, name)}
	}
	e[name] = u.JoinPath(name).String()
	return nil
}
