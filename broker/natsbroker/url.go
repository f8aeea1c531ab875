package natsbroker

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// ParseURL reads nats://host:port[,host:port][?option=value&…]: the servers, and the options that the URL gives, for
// New. The caller may set more of them. Secrets are in files or in the environment (getenv, os.Getenv in most
// programs), never in the URL, and so in no argument list, log or error.
//
//	tls=on|off           speak TLS. Default: on if ca or cert is given, else as the server wants it
//	ca=FILE              the authorities, PEM, that the servers' certificates are checked against. Default: the system's
//	cert=FILE, key=FILE  the client's own certificate, PEM
//	user=NAME            default: SKALD_NATS_USER
//	password_file=FILE   one line; read again for each connection. Default: SKALD_NATS_PASSWORD
//	creds=FILE           a credentials file (JWT and seed), instead of user and password
//	replicas=N           Options.Replicas
//	retain=DURATION      Options.Retain, "168h"
func ParseURL(s string, getenv func(string) string) (servers string, opts *Options, err error) {
	rest, ok := strings.CutPrefix(s, "nats://")
	servers, query, _ := strings.Cut(rest, "?")
	servers = strings.TrimSuffix(servers, "/")
	if !ok || servers == "" {
		return "", nil, fmt.Errorf("broker URL %q: want nats://host:port[,host:port][?option=value]", redacted(s))
	}
	if strings.Contains(servers, "@") {
		return "", nil, fmt.Errorf("broker URL %q: a user and a password do not belong in front of the host: give ?user=…&password_file=FILE", redacted(s))
	}
	if err := checkServers(servers); err != nil {
		return "", nil, err
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", nil, fmt.Errorf("broker URL for %s: what follows the ? is not option=value&…", servers) // err would quote it
	}
	o := &urlOptions{values: values, getenv: getenv, out: &Options{}}
	if err := o.apply(); err != nil {
		return "", nil, fmt.Errorf("broker URL for %s: %w", servers, err)
	}
	return servers, o.out, nil
}

func checkServers(servers string) error {
	for _, s := range strings.Split(servers, ",") {
		if host, port, err := net.SplitHostPort(s); err != nil || host == "" || port == "" || strings.ContainsAny(s, "/@?#") {
			return fmt.Errorf("NATS servers: %q is not host:port", redacted(s))
		}
	}
	return nil
}

// redacted drops what may be a password.
func redacted(s string) string {
	s, _, _ = strings.Cut(s, "?")
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		return "…" + s[at:]
	}
	return s
}

// urlOptions turns the options of a URL into those of New.
type urlOptions struct {
	values url.Values
	getenv func(string) string
	out    *Options
}

func (o *urlOptions) apply() error {
	known := []string{"ca", "cert", "creds", "key", "password_file", "replicas", "retain", "tls", "user"}
	for _, name := range slices.Sorted(maps.Keys(o.values)) {
		switch {
		case name == "password":
			return errors.New("a password does not belong in a URL: give password_file=FILE, or set SKALD_NATS_PASSWORD")
		case !slices.Contains(known, name):
			return fmt.Errorf("there is no option %q, only %s", name, strings.Join(known, ", "))
		case len(o.values[name]) > 1:
			return fmt.Errorf("option %s is given %d times", name, len(o.values[name]))
		}
	}
	if err := o.secure(); err != nil {
		return err
	}
	if err := o.identity(); err != nil {
		return err
	}
	return o.streams()
}

func (o *urlOptions) secure() error {
	ca, cert, key := o.values.Get("ca"), o.values.Get("cert"), o.values.Get("key")
	switch want := o.values.Get("tls"); {
	case want != "" && want != "on" && want != "off":
		return fmt.Errorf("tls is on or off, not %q", want)
	case want == "off" && ca+cert+key != "":
		return errors.New("tls=off, and yet ca, cert or key is given")
	case (cert == "") != (key == ""):
		return errors.New("cert and key belong together: give both")
	case want == "on":
		o.out.Client = append(o.out.Client, nats.Secure())
	}
	for _, file := range []string{ca, cert, key} {
		if file == "" {
			continue
		}
		if _, err := os.ReadFile(file); err != nil {
			return fmt.Errorf("read a certificate: %w", err)
		}
	}
	if ca != "" {
		o.out.Client = append(o.out.Client, nats.RootCAs(ca))
	}
	if cert != "" {
		o.out.Client = append(o.out.Client, nats.ClientCert(cert, key))
	}
	return nil
}

func (o *urlOptions) identity() error {
	user, file, creds := o.values.Get("user"), o.values.Get("password_file"), o.values.Get("creds")
	if user == "" {
		user = o.getenv("SKALD_NATS_USER")
	}
	switch {
	case creds != "" && o.values.Get("user")+file != "":
		return errors.New("creds and user or password_file are given: one of both says who this is")
	case creds != "":
		if _, err := os.Stat(creds); err != nil {
			return fmt.Errorf("read the credentials: %w", err)
		}
		o.out.Client = append(o.out.Client, nats.UserCredentials(creds))
		return nil
	case user == "" && file != "":
		return errors.New("password_file needs a user: give user=NAME, or set SKALD_NATS_USER")
	case user == "":
		return nil
	}
	password := func() (string, error) {
		if file == "" {
			return o.getenv("SKALD_NATS_PASSWORD"), nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
		return strings.TrimRight(string(text), "\r\n"), nil
	}
	pass, err := password()
	if err != nil {
		return err
	}
	if pass == "" {
		return errors.New("no password: give password_file=FILE, or set SKALD_NATS_PASSWORD")
	}
	o.out.Client = append(o.out.Client, nats.UserInfoHandler(func() (string, string) {
		pass, _ := password() // a file that is gone is an empty password, which the server refuses
		return user, pass
	}))
	return nil
}

func (o *urlOptions) streams() (err error) {
	if v := o.values.Get("replicas"); v != "" {
		if o.out.Replicas, err = strconv.Atoi(v); err != nil || o.out.Replicas < 1 || o.out.Replicas > 5 {
			return fmt.Errorf("replicas is 1 to 5, not %q", v)
		}
	}
	if v := o.values.Get("retain"); v != "" {
		if o.out.Retain, err = time.ParseDuration(v); err != nil || o.out.Retain <= 0 {
			return fmt.Errorf("retain is a duration as 168h, not %q", v)
		}
	}
	return nil
}
