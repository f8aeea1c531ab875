package kafkabroker

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/internal/endpoint"
)

// ParseURL parses kafka://host:port[,host:port][?option=value&…]. It returns the seed brokers and the
// options for New; the caller may set more options. Secrets are in files or in environment variables, which
// ParseURL reads with getenv (usually os.Getenv). The URL has no secrets, so it may appear in lists of
// processes, logs and errors.
//
//	tls=on|off             use TLS. Default: on if ca or cert is given, else off
//	ca=FILE                certificate authorities for the brokers' certificates, PEM. Default: the system's
//	cert=FILE, key=FILE    the client certificate and its key, PEM; read for each connection
//	sasl=plain|scram-sha-256|scram-sha-512|oauthbearer|aws-msk-iam
//	user=NAME              default: SKALD_KAFKA_USER
//	password_file=FILE     one line; read for each connection. Default: SKALD_KAFKA_PASSWORD
//	token_file=FILE        the token of oauthbearer; read for each connection. Default: SKALD_KAFKA_TOKEN
//	credentials_file=FILE  the access key of aws-msk-iam, as in ~/.aws/credentials, profile default; read for each connection.
//	                       Default: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//	partitioner=…          Options.Partitioner
//	balancers=…,…          Options.Balancers
//	start=…                Options.Start: earliest, latest, or a time in the format of RFC 3339
//	envelope=…             Options.Envelope: cloudevents, off, or places such as id:header:message-id,type:json:kind
func ParseURL(s string, getenv func(string) string) (seeds string, opts *Options, err error) {
	kind := endpoint.Kind{Schemes: []string{"kafka"}, Env: "SKALD_KAFKA", Options: []string{
		"tls", "ca", "cert", "key", "sasl", "user", "password_file", "token_file", "credentials_file",
		"partitioner", "balancers", "start", "envelope"}}
	u, err := kind.Parse(s, getenv)
	if err != nil {
		return "", nil, err
	}
	if opts, err = options(u); err != nil {
		return "", nil, u.Wrap(err)
	}
	return u.Hosts, opts, nil
}

func checkSeeds(seeds string) error {
	if err := endpoint.CheckHosts(seeds); err != nil {
		return fmt.Errorf("seed brokers: %w", err)
	}
	return nil
}

// options converts the options of a URL to those of New.
func options(u *endpoint.URL) (*Options, error) {
	out := &Options{}
	secure, err := u.TLS()
	if err != nil {
		return nil, err
	}
	auth, err := mechanism(u, secure != nil)
	if err != nil {
		return nil, err
	}
	if secure != nil {
		out.Client = append(out.Client, kgo.DialTLSConfig(secure))
	}
	if auth != nil {
		out.Client = append(out.Client, kgo.SASL(auth))
	}
	out.Partitioner, out.Start = u.Get("partitioner"), u.Get("start")
	if list := u.Get("balancers"); list != "" {
		out.Balancers = strings.Split(list, ",")
	}
	if out.Envelope, err = cloudevents.ParseEnvelope(u.Get("envelope")); err != nil {
		return nil, err
	}
	_, err = out.compile()
	return out, err
}
