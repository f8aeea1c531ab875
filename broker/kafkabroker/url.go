package kafkabroker

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ParseURL reads kafka://host:port[,host:port][?option=value&…]: the seed brokers, and the options that the URL
// gives, for New. The caller may set more of them. Secrets are in files or in the environment (getenv, os.Getenv in
// most programs), never in the URL, and so in no argument list, log or error.
//
//	tls=on|off             speak TLS. Default: on if ca or cert is given, else off
//	ca=FILE                the authorities, PEM, that the brokers' certificates are checked against. Default: the system's
//	cert=FILE, key=FILE    the client's own certificate, PEM; read again for each connection
//	sasl=plain|scram-sha-256|scram-sha-512
//	user=NAME              default: SKALD_KAFKA_USER
//	password_file=FILE     one line; read again for each connection. Default: SKALD_KAFKA_PASSWORD
//	partitioner=…          Options.Partitioner
//	balancers=…,…          Options.Balancers
//	start=…                Options.Start: earliest, latest, or a time as in RFC 3339
//	envelope=…             Options.Envelope: cloudevents, off, or places as in id:header:message-id,type:json:kind
func ParseURL(s string, getenv func(string) string) (seeds string, opts *Options, err error) {
	rest, ok := strings.CutPrefix(s, "kafka://")
	seeds, query, _ := strings.Cut(rest, "?")
	seeds = strings.TrimSuffix(seeds, "/")
	if !ok || seeds == "" {
		return "", nil, fmt.Errorf("broker URL %q: want kafka://host:port[,host:port][?option=value]", redacted(s))
	}
	if strings.Contains(seeds, "@") {
		return "", nil, fmt.Errorf("broker URL %q: a user and a password do not belong in front of the host: give ?sasl=…&user=…&password_file=FILE", redacted(s))
	}
	if err := checkSeeds(seeds); err != nil {
		return "", nil, err
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", nil, fmt.Errorf("broker URL for %s: what follows the ? is not option=value&…", seeds) // err would quote it
	}
	o := &urlOptions{values: values, getenv: getenv, out: &Options{}}
	if err := o.apply(); err != nil {
		return "", nil, fmt.Errorf("broker URL for %s: %w", seeds, err)
	}
	return seeds, o.out, nil
}

func checkSeeds(seeds string) error {
	for _, s := range strings.Split(seeds, ",") {
		if host, port, err := net.SplitHostPort(s); err != nil || host == "" || port == "" || strings.ContainsAny(s, "/@?#") {
			return fmt.Errorf("seed brokers: %q is not host:port", redacted(s))
		}
	}
	return nil
}

// redacted drops what may be a password.
func redacted(s string) string {
	s, _, _ = strings.Cut(s, "?")
	if u, err := url.Parse(s); err == nil && u.User != nil {
		return u.Redacted()
	}
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
	known := map[string]bool{}
	for _, name := range []string{"tls", "ca", "cert", "key", "sasl", "user", "password_file", "partitioner", "balancers", "start", "envelope"} {
		known[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(o.values)) {
		switch {
		case name == "password":
			return errors.New("a password does not belong in a URL: give password_file=FILE, or set SKALD_KAFKA_PASSWORD")
		case !known[name]:
			return fmt.Errorf("there is no option %q, only %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case len(o.values[name]) > 1:
			return fmt.Errorf("option %s is given %d times", name, len(o.values[name]))
		}
	}
	secure, err := o.tls()
	if err != nil {
		return err
	}
	auth, err := o.sasl(secure != nil)
	if err != nil {
		return err
	}
	if secure != nil {
		o.out.Client = append(o.out.Client, kgo.DialTLSConfig(secure))
	}
	if auth != nil {
		o.out.Client = append(o.out.Client, kgo.SASL(auth))
	}
	return o.habits()
}

// habits are the options that have nothing to do with security.
func (o *urlOptions) habits() (err error) {
	o.out.Partitioner, o.out.Start = o.values.Get("partitioner"), o.values.Get("start")
	if list := o.values.Get("balancers"); list != "" {
		o.out.Balancers = strings.Split(list, ",")
	}
	if o.out.Envelope, err = parseEnvelope(o.values.Get("envelope")); err != nil {
		return err
	}
	_, err = o.out.compile()
	return err
}
