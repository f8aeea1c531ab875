package endpoint

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
)

// Kind describes the URLs of one driver.
type Kind struct {
	Schemes []string // such as "kafka"; errors show the first one
	Env     string   // the prefix of variables: "SKALD_KAFKA" for SKALD_KAFKA_USER and SKALD_KAFKA_PASSWORD
	Path    bool     // a /path after the hosts is allowed
	Options []string // the allowed options, including those that all drivers have
	// Ports has the default ports, by scheme. If Ports is not nil, a URL may have the form that other
	// clients of the broker accept: without a port, and with a percent-encoded user:password@ before the
	// host.
	Ports map[string]string
}

// URL is a parsed URL.
type URL struct {
	Scheme string
	Hosts  string // "host:port,host:port"
	Path   string // without the first slash, not percent-decoded

	front  *url.Userinfo // the user in front of the host; nil without a user
	env    string
	values url.Values
	getenv func(string) string
}

// Parse parses the URL s. The function getenv is usually os.Getenv. If it is nil, the environment is empty.
func (k Kind) Parse(s string, getenv func(string) string) (*URL, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	rest = strings.ReplaceAll(rest, ","+scheme+"://", ",") // each server may have the scheme, too
	if err := CheckFront(scheme + "://" + rest); ok && err != nil {
		return nil, fmt.Errorf("broker URL: want %s: %w", k.form(), err)
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	if !ok || !slices.Contains(k.Schemes, scheme) || hosts == "" || path != "" && !k.Path {
		return nil, fmt.Errorf("broker URL %q: want %s", redacted(s), k.form())
	}
	hosts, user, err := k.inFront(hosts, path)
	if err != nil {
		return nil, fmt.Errorf("broker URL %q: %w", redacted(s), err)
	}
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	u := &URL{Scheme: scheme, Hosts: hosts, Path: path, front: user, env: k.Env, getenv: getenv}
	if port := k.Ports[scheme]; port != "" {
		all := strings.Split(hosts, ",")
		for i, host := range all {
			if bare(host) {
				all[i] = net.JoinHostPort(strings.Trim(host, "[]"), port)
			}
		}
		u.Hosts = strings.Join(all, ",")
	}
	if err := CheckHosts(u.Hosts); err != nil {
		return nil, fmt.Errorf("broker URL: %w", err)
	}
	if u.values, err = url.ParseQuery(query); err != nil {
		return nil, u.Wrap(errors.New("the part after ? is not option=value&…")) // err may quote a password
	}
	return u, u.Wrap(u.check(k.Options))
}

// inFront removes user:password@ from the hosts, and returns both. All servers with a user must have the
// same user and password.
func (k Kind) inFront(hosts, path string) (bare string, front *url.Userinfo, err error) {
	if !strings.Contains(hosts, "@") && !strings.Contains(path, "@") {
		return hosts, nil, nil
	}
	if k.Ports == nil {
		return "", nil,
			errors.New("user and password are not allowed in front of the host: add user=NAME and password_file=FILE after the ?")
	}
	if strings.Contains(path, "@") {
		return "", nil, errors.New("the part before an @ must be percent-encoded: / is %2F, @ is %40")
	}
	text := ""
	all := strings.Split(hosts, ",")
	for i, one := range all {
		at := strings.LastIndexByte(one, '@')
		if at < 0 {
			continue
		}
		if text != "" && one[:at] != text {
			return "", nil,
				errors.New("the servers have different users or passwords, but a client has only one")
		}
		text, all[i] = one[:at], one[at+1:]
	}
	user, pass, both := strings.Cut(text, ":")
	user, err = url.PathUnescape(user)
	if err == nil {
		pass, err = url.PathUnescape(pass)
	}
	if err != nil || user == "" {
		// err may quote the password.
		return "", nil, errors.New("the part in front of the host must be user:password@, percent-encoded")
	}
	if front = url.User(user); both {
		front = url.UserPassword(user, pass)
	}
	return strings.Join(all, ","), front, nil
}

// bare reports whether a host has no port.
func bare(host string) bool {
	return host != "" && (!strings.Contains(host, ":") || strings.HasPrefix(host, "[") &&
		strings.HasSuffix(host, "]"))
}

func (k Kind) form() string {
	path, front, port := "", "", ":port"
	if k.Path {
		path = "[/path]"
	}
	if k.Ports != nil {
		front, port = "[user:password@]", "[:port]"
	}
	return k.Schemes[0] + "://" + front + "host" + port + "[,host" + port + "]" + path + "[?option=value]"
}

// HasPassword reports whether the URL s has a password or a NATS token in front of its host. s may be a URL
// of any kind. A NATS user counts as a token even if the environment has a password for this user.
func HasPassword(s string) bool {
	front, query, _ := strings.Cut(s, "?")
	scheme, rest, ok := strings.Cut(front, "://")
	at := strings.LastIndexByte(rest, '@')
	if !ok || at <= 0 {
		return false
	}
	return strings.Contains(rest[:at], ":") || scheme == "nats" && !strings.Contains(query, "password_file=")
}

// check returns an error for an unknown or a repeated option.
func (u *URL) check(known []string) error {
	for _, name := range slices.Sorted(maps.Keys(u.values)) {
		switch {
		case name == "password":
			return fmt.Errorf(
				"a password is not allowed in a URL: give password_file=FILE, or set %s_PASSWORD", u.env)
		case !slices.Contains(known, name):
			return fmt.Errorf("unknown option %q: the options are %s", name,
				strings.Join(slices.Sorted(slices.Values(known)), ", "))
		case len(u.values[name]) > 1:
			return fmt.Errorf("option %s is given %d times", name, len(u.values[name]))
		}
	}
	return nil
}

// InFront reports whether the URL has a user or a token in front of the host.
func (u *URL) InFront() bool { return u.front != nil }

// Get returns the value of an option, or "" without that option.
func (u *URL) Get(option string) string { return u.values.Get(option) }

// Env returns the value of an environment variable.
func (u *URL) Env(name string) string { return u.getenv(name) }

// Wrap adds the hosts of the URL to an error.
func (u *URL) Wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("broker URL for %s: %w", u.Hosts, err)
}

// CheckHosts returns an error if hosts does not have the form "host:port[,host:port]".
func CheckHosts(hosts string) error {
	for _, s := range strings.Split(hosts, ",") {
		if host, port, err := net.SplitHostPort(s); err != nil || host == "" || port == "" ||
			strings.ContainsAny(s, "/@?#") {
			return fmt.Errorf("%q is not host:port", redacted(s))
		}
	}
	return nil
}

// redacted removes the parts of a URL that may have a password.
func redacted(s string) string {
	s, _, _ = strings.Cut(s, "?")
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		return "…" + s[at:]
	}
	return s
}
