// Package brokerurl reads the URLs of brokers, scheme://host:port[,host:port][/path][?option=value&…], for the drivers:
// what each of them means, and what it does not know, is theirs to say. Secrets are in files or in the environment,
// never in the URL; nothing here shows one in an error.
//
// Every driver that asks for them has these options alike:
//
//	tls=on|off             speak TLS. Default: on if ca or cert is given
//	ca=FILE                the authorities, PEM, that the servers' certificates are checked against. Default: the system's
//	cert=FILE, key=FILE    the client's own certificate, PEM; read again for each connection
//	user=NAME              default: the environment's …_USER
//	password_file=FILE     one line; read again for each connection. Default: the environment's …_PASSWORD
package brokerurl

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
)

// A Kind is what the URLs of one driver look like.
type Kind struct {
	Schemes []string // "kafka"; the first is the one that errors show
	Env     string   // "SKALD_KAFKA", for SKALD_KAFKA_USER and SKALD_KAFKA_PASSWORD
	Path    bool     // what follows the hosts, /path, means something
	Options []string // those that it knows, of the shared ones, too
}

// A URL is one that was read.
type URL struct {
	Scheme string
	Hosts  string // "host:port,host:port"
	Path   string // without the first slash, as it was written

	env    string
	values url.Values
	getenv func(string) string
}

// Parse reads s; getenv is os.Getenv in most programs, nil an empty environment.
func (k Kind) Parse(s string, getenv func(string) string) (*URL, error) {
	front, query, _ := strings.Cut(s, "?")
	scheme, rest, ok := strings.Cut(front, "://")
	hosts, path, _ := strings.Cut(rest, "/")
	if !ok || !slices.Contains(k.Schemes, scheme) || hosts == "" || path != "" && !k.Path {
		return nil, fmt.Errorf("broker URL %q: want %s", Redacted(s), k.form())
	}
	if strings.Contains(rest, "@") {
		return nil, fmt.Errorf("broker URL %q: a user and a password do not belong in front of the host: give user=NAME and password_file=FILE behind the ?", Redacted(s))
	}
	if err := CheckHosts(hosts); err != nil {
		return nil, fmt.Errorf("broker URL: %w", err)
	}
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	u := &URL{Scheme: scheme, Hosts: hosts, Path: path, env: k.Env, getenv: getenv}
	var err error
	if u.values, err = url.ParseQuery(query); err != nil {
		return nil, u.Wrap(errors.New("what follows the ? is not option=value&…")) // err would quote it
	}
	return u, u.Wrap(u.check(k.Options))
}

func (k Kind) form() string {
	path := ""
	if k.Path {
		path = "[/path]"
	}
	return k.Schemes[0] + "://host:port[,host:port]" + path + "[?option=value]"
}

// check refuses options that are not known, or are given twice.
func (u *URL) check(known []string) error {
	for _, name := range slices.Sorted(maps.Keys(u.values)) {
		switch {
		case name == "password":
			return fmt.Errorf("a password does not belong in a URL: give password_file=FILE, or set %s_PASSWORD", u.env)
		case !slices.Contains(known, name):
			return fmt.Errorf("there is no option %q, only %s", name, strings.Join(slices.Sorted(slices.Values(known)), ", "))
		case len(u.values[name]) > 1:
			return fmt.Errorf("option %s is given %d times", name, len(u.values[name]))
		}
	}
	return nil
}

// Get is the value of an option, empty if it is not given.
func (u *URL) Get(option string) string { return u.values.Get(option) }

// Wrap says of an error which URL it is about.
func (u *URL) Wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("broker URL for %s: %w", u.Hosts, err)
}

// CheckHosts wants "host:port[,host:port]".
func CheckHosts(hosts string) error {
	for _, s := range strings.Split(hosts, ",") {
		if host, port, err := net.SplitHostPort(s); err != nil || host == "" || port == "" || strings.ContainsAny(s, "/@?#") {
			return fmt.Errorf("%q is not host:port", Redacted(s))
		}
	}
	return nil
}

// Redacted drops what may be a password.
func Redacted(s string) string {
	s, _, _ = strings.Cut(s, "?")
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		return "…" + s[at:]
	}
	return s
}
