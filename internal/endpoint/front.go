package endpoint

import (
	"errors"
	"net/url"
	"strings"
)

// errFront does not quote the URL, because any part of the URL may belong to the password.
var errFront = errors.New("the URL has an invalid port, or user:password@ in front of the host is not " +
	"percent-encoded: % is %25, @ is %40, : is %3A, / is %2F, ? is %3F, # is %23, a comma is %2C")

// CheckFront returns an error if the user or the password of a URL has a special character that is not
// percent-encoded. A parser would read the rest of the password as a host, a path or an option. It would then
// print this rest in errors, and send it to the DNS.
func CheckFront(s string) error {
	_, rest, ok := strings.Cut(s, "://")
	if !ok {
		return nil // not a URL
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
			return errFront // the comma belongs to the user or password
		}
		if _, err := url.PathUnescape(one[:max(at, 0)]); err != nil || !numbered(one[at+1:]) {
			return errFront
		}
	}
	return nil
}

// strayed returns an error if the path, after hosts without a user, has an @ or a #. Then the path may be a
// part of a password.
func strayed(behind, authority string) error {
	if strings.Contains(behind, "@") && !strings.Contains(authority, "@") || strings.Contains(behind, "#") {
		return errFront
	}
	return nil
}

// numbered reports whether host has no port or a numeric port.
func numbered(host string) bool {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.HasSuffix(host, "]") {
		return true
	}
	return strings.Trim(host[colon+1:], "0123456789") == ""
}

// CheckPostgres is CheckFront for PostgreSQL URLs. It also refuses a second @, because for a PostgreSQL
// client the password ends at the first @.
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

// CheckHost returns an error if a host name has an @, because the name may then have a part of a password.
func CheckHost(host string) error {
	if strings.Contains(host, "@") {
		return errFront
	}
	return nil
}
