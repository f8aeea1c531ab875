package natsbroker

import (
	"fmt"
	"strconv"
	"time"

	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/internal/endpoint"
)

// ParseURL parses nats://[user:password@]host[:port][,host[:port]][?option=value&…]. It returns the servers
// and the options for New; the caller may set more options. A token may replace user:password. Secrets may
// also be in files or in the environment (getenv, mostly os.Getenv). Errors do not show them.
//
//	tls=on|off           speak TLS. Default: on if ca or cert is given, else as the server wants it
//	ca=FILE              the authorities, PEM, that the servers' certificates are checked against. Default: the system's
//	cert=FILE, key=FILE  the client's own certificate, PEM; read again for each connection
//	user=NAME            default: SKALD_NATS_USER
//	password_file=FILE   one line; read again for each connection. Default: SKALD_NATS_PASSWORD
//	creds=FILE           a credentials file (JWT and seed), instead of user and password; read again for each connection
//	nkey=FILE            the seed of an nkey, instead of these
//	replicas=N           Options.Replicas
//	retain=DURATION      Options.Retain, "168h"
//	envelope=…           Options.Envelope: cloudevents, off, or places as in id:header:message-id,type:json:kind
//	shapes=…             Options.Shapes: topic:stream[:subject],…; with a * behind the stream, groups are its durables
func ParseURL(s string, getenv func(string) string) (servers string, opts *Options, err error) {
	kind := endpoint.Kind{Schemes: []string{"nats"}, Env: "SKALD_NATS",
		Ports: map[string]string{"nats": "4222"}, Options: []string{
			"tls", "ca", "cert", "key", "user", "password_file", "creds", "nkey", "replicas", "retain",
			"envelope", "shapes"}}
	u, err := kind.Parse(s, getenv)
	if err != nil {
		return "", nil, err
	}
	opts = &Options{}
	for _, read := range []func(*endpoint.URL) error{opts.login, opts.streams, opts.mapped} {
		if err := read(u); err != nil {
			return "", nil, u.Wrap(err)
		}
	}
	return u.Hosts, opts, nil
}

func checkServers(servers string) error {
	if err := endpoint.CheckHosts(servers); err != nil {
		return fmt.Errorf("NATS servers: %w", err)
	}
	return nil
}

// login reads the identity and the TLS settings.
func (o *Options) login(u *endpoint.URL) error {
	with, err := options(u)
	o.Client = append(o.Client, with...)
	return err
}

// mapped reads the envelope.
func (o *Options) mapped(u *endpoint.URL) (err error) {
	if o.Envelope, err = cloudevents.ParseEnvelope(u.Get("envelope")); err == nil {
		_, err = codec(o.Envelope)
	}
	return err
}

// streams reads the settings of streams that the broker creates.
func (o *Options) streams(u *endpoint.URL) (err error) {
	if v := u.Get("replicas"); v != "" {
		if o.Replicas, err = strconv.Atoi(v); err != nil || o.Replicas < 1 || o.Replicas > 5 {
			return fmt.Errorf("replicas is 1 to 5, not %q", v)
		}
	}
	if v := u.Get("retain"); v != "" {
		if o.Retain, err = time.ParseDuration(v); err != nil || o.Retain <= 0 {
			return fmt.Errorf("retain is a duration such as 168h, not %q", v)
		}
	}
	if v := u.Get("shapes"); v != "" {
		o.Shapes, err = parseShapes(v)
	}
	return err
}
