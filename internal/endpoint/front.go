package endpoint

import (
	"errors"
	"net/url"
	"strings"
)

// errFront does not quote the URL: any part of it may be a part of the password.
var errFront = errors.New("the URL has an invalid port, or user:password@ in front of the host is not " +
	"percent-encoded: % is %25, @ is %40, : is %3A, / is %2F, ? is %3F, # is %23, a comma is %2C")

// CheckFront refuses a URL whose user or password has a character that ends it too early. A reader would take
// the rest for a host, a path or an option, show it in errors, and ask for it in the DNS.
func CheckFront(s string) error {
	_, rest, ok := strings.Cut(s, "://")
	if !ok {
		return nil // no URL
	}
	authority, behind := rest, ""
	if at := strings.IndexAny(rest, "/?#"); at >= 0 {
		authority, behind = rest[:at], rest[at:]
	}
	path, query, _ := strings.Cut(behind, "?")
	if strings.Contains(path, "#") || strings.Contains(path, "@") || strings.Contains(query, "#") {
		return strayed(behind, authority)
	}
	for option := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(option, "="); strings.Contains(name, "@") {
			return errFront
		}
	}
	for i, one := range strings.Split(authority, ",") {
		at := strings.LastIndexByte(one, '@')
		if at >= 0 && i > 0 && !strings.Contains(authority[:strings.IndexByte(authority, ',')], "@") {
			return errFront // the comma is part of what is in front
		}
		if _, err := url.PathUnescape(one[:max(at, 0)]); err != nil || !numbered(one[at+1:]) {
			return errFront
		}
	}
	return nil
}

// strayed refuses a path with an @ or a #: behind hosts without a user it may be a part of one's password.
func strayed(behind, authority string) error {
	if strings.Contains(behind, "@") && !strings.Contains(authority, "@") || strings.Contains(behind, "#") {
		return errFront
	}
	return nil
}

// numbered tells whether host has no port, or one of digits.
func numbered(host string) bool {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.HasSuffix(host, "]") {
		return true
	}
	return strings.Trim(host[colon+1:], "0123456789") == ""
}

// CheckPostgres is CheckFront for a URL of PostgreSQL, of which a client takes the first @ for the end of the
// password.
func CheckPostgres(s string) error {
	_, rest, ok := strings.Cut(s, "://")
	if at := strings.IndexAny(rest, "/?#"); at >= 0 {
		rest = rest[:at]
	}
	if ok && strings.Count(rest, "@") > 1 {
		return errFront
	}
	return CheckFront(s)
}

// CheckHost refuses the name of a host that has an @, as a part of a password that was taken for a host.
func CheckHost(host string) error {
	if strings.Contains(host, "@") {
		return errFront
	}
	return nil
}
