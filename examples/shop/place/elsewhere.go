package place

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/skald-go/skald/examples/shop/service"
)

// Elsewhere is where services of other processes are asked what they know of an order: the URL of each.
type Elsewhere map[string]string

// Add takes NAME=URL, the address of the process of a service with its --answer.
func (e Elsewhere) Add(text string) error {
	name, at, _ := strings.Cut(text, "=")
	u, err := url.Parse(at)
	switch {
	case !slices.Contains(service.Names(), name):
		return &UsageError{What: fmt.Sprintf("there is no service %q: give NAME=URL, NAME one of %s", name,
			strings.Join(service.Names(), ", "))}
	case e[name] != "":
		return &UsageError{What: name + " is asked twice: give one of its instances, they share its database"}
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" ||
		u.Fragment != "":
		return &UsageError{What: fmt.Sprintf(
			"where is %s? Give %s=http://host:port, where its process has its --answer", name, name)}
	}
	e[name] = u.JoinPath(name).String()
	return nil
}
