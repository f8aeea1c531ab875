package rabbitbroker

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/internal/endpoint"
)

// ParseURL parses amqp://[user:password@]host[:port][,host[:port]][/vhost][?option=value&…], or amqps://
// with TLS. It returns the servers and the options for New; the caller may set more options. Secrets may
// also be in files or in environment variables, which ParseURL reads with getenv (usually os.Getenv). Errors
// do not contain secrets.
//
//	tls=on|off           use TLS. Default: on with amqps, or if ca or cert is given
//	ca=FILE              certificate authorities for the servers' certificates, PEM. Default: the system's
//	cert=FILE, key=FILE  the client certificate and its key, PEM; read for each connection
//	user=NAME            default: SKALD_RABBITMQ_USER, else guest
//	password_file=FILE   one line; read for each connection. Default: SKALD_RABBITMQ_PASSWORD
//	auth=external        authenticate with the client certificate
//	topology=check       Options.CheckOnly
//	route=type           Options.ByType
//	bind=PATTERN,…       Options.Bind
//	unrouted=drop        Options.DropUnrouted
//	queue=NAME           Options.Queue
//	envelope=…           Options.Envelope: cloudevents, off, or places such as id:header:message-id,type:json:kind
//	prefetch=N           Options.Prefetch
func ParseURL(s string, getenv func(string) string) (servers string, opts *Options, err error) {
	kind := endpoint.Kind{Schemes: []string{"amqp", "amqps"}, Env: "SKALD_RABBITMQ", Path: true,
		Ports: map[string]string{"amqp": "5672", "amqps": "5671"}, Options: []string{
			"tls", "ca", "cert", "key", "user", "password_file", "auth", "topology", "route", "bind",
			"unrouted", "queue", "prefetch", "envelope"}}
	u, err := kind.Parse(s, getenv)
	if err != nil {
		return "", nil, err
	}
	opts = &Options{}
	for _, read := range []func(*endpoint.URL) error{
		opts.setVirtualHost, opts.secure, opts.identity, opts.shape} {
		if err := read(u); err != nil {
			return "", nil, u.Wrap(err)
		}
	}
	return u.Hosts, opts, nil
}

// setVirtualHost sets the virtual host from the path: /a%2Fb means "a/b", and an empty path or / means "/".
func (o *Options) setVirtualHost(u *endpoint.URL) (err error) {
	if o.VHost, err = url.PathUnescape(u.Path); err != nil {
		return errors.New("the virtual host is not percent-encoded")
	}
	return nil
}

func (o *Options) secure(u *endpoint.URL) (err error) {
	o.TLS, err = u.TLS()
	switch {
	case err != nil || u.Scheme != "amqps" || o.TLS != nil:
		return err
	case u.Get("tls") == "off":
		return errors.New("amqps and tls=off exclude each other")
	}
	o.TLS = secured()
	return nil
}

func (o *Options) identity(u *endpoint.URL) error {
	switch auth := u.Get("auth"); {
	case auth != "" && auth != "external":
		return fmt.Errorf("auth can only be external, not %q", auth)
	case auth != "" && (u.Get("cert") == "" || u.InFront() || u.Get("user")+u.Get("password_file") != ""):
		return errors.New("auth=external needs cert and key, and excludes user and password_file")
	case auth != "":
		o.External = true
		return nil
	}
	who, err := u.Identity()
	o.User, o.Password = who.User, who.Password
	return err
}

// shape sets the options for topics and groups.
func (o *Options) shape(u *endpoint.URL) (err error) {
	switch v := u.Get("topology"); v {
	case "", "declare":
	case "check":
		o.CheckOnly = true
	default:
		return fmt.Errorf("topology is declare or check, not %q", v)
	}
	switch v := u.Get("route"); v {
	case "", "partition":
	case "type":
		o.ByType = true
	default:
		return fmt.Errorf("route is partition or type, not %q", v)
	}
	switch v := u.Get("unrouted"); v {
	case "", "refuse":
	case "drop":
		o.DropUnrouted = true
	default:
		return fmt.Errorf("unrouted is refuse or drop, not %q", v)
	}
	if v := u.Get("bind"); v != "" {
		o.Bind = strings.Split(v, ",")
	}
	if o.Queue = u.Get("queue"); o.Queue != "" && o.ByType || len(o.Bind) > 0 && !o.ByType {
		return errors.New("bind needs route=type, and queue excludes it")
	}
	if o.Envelope, err = cloudevents.ParseEnvelope(u.Get("envelope")); err != nil {
		return err
	}
	if _, err = codec(o.Envelope); err != nil {
		return err
	}
	if v := u.Get("prefetch"); v != "" {
		if o.Prefetch, err = strconv.Atoi(v); err != nil || o.Prefetch < 1 || o.Prefetch > 65535 {
			return fmt.Errorf("prefetch is 1 to 65535, not %q", v)
		}
	}
	return nil
}
