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
// also be in files or in environment variables, which ParseURL reads with getenv (usually os.Getenv). Errors
// do not contain secrets.
//
//	tls=on|off           use TLS. Default: on if ca or cert is given, else if the server requires it
//	ca=FILE              certificate authorities for the servers' certificates, PEM. Default: the system's
//	cert=FILE, key=FILE  the client certificate and its key, PEM; read for each connection
//	user=NAME            default: SKALD_NATS_USER
//	password_file=FILE   one line; read for each connection. Default: SKALD_NATS_PASSWORD
//	creds=FILE           a credentials file (JWT and seed), instead of user and password; read for each connection
//	nkey=FILE            the seed of an nkey, instead of user, password and creds
//	replicas=N           Options.Replicas
//	retain=DURATION      Options.Retain, such as 168h
//	envelope=…           Options.Envelope: cloudevents, off, or places such as id:header:message-id,type:json:kind
//	shapes=…             Options.Shapes: topic:stream[:subject],…; a * after the stream sets Shape.Durable
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

// login sets the connection options for the TLS settings and the user.
func (o *Options) login(u *endpoint.URL) error {
	with, err := options(u)
	o.Client = append(o.Client, with...)
	return err
}

// mapped sets the envelope.
func (o *Options) mapped(u *endpoint.URL) (err error) {
	if o.Envelope, err = cloudevents.ParseEnvelope(u.Get("envelope")); err == nil {
		_, err = codec(o.Envelope)
	}
	return err
}

// streams sets the options for streams.
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
