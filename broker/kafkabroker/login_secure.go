// This file reads the SASL mechanism and the user from a kafka:// URL.

package kafkabroker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/skald-go/skald/internal/endpoint"
)

// mechanism returns the SASL mechanism of the URL and the environment, or nil if the URL has no sasl option.
func mechanism(u *endpoint.URL, secure bool) (sasl.Mechanism, error) {
	name := u.Get("sasl")
	if name == "" {
		if u.Get("user")+u.Get("password_file") != "" {
			return nil, errors.New("user or password_file is given without sasl: add sasl=plain, scram-sha-256 or scram-sha-512")
		}
		return nil, nil
	}
	switch name {
	case "oauthbearer":
		return bearer(u, secure)
	case "aws-msk-iam":
		return iam(u, secure)
	}
	who, err := u.Identity()
	if err != nil {
		return nil, err
	}
	if who.User == "" {
		return nil, fmt.Errorf("sasl=%s needs a user: give user=NAME, or set SKALD_KAFKA_USER", name)
	}
	switch name {
	case "plain":
		if !secure && u.Get("tls") != "off" {
			return nil, errors.New("sasl=plain without TLS shows the password to the network: add tls=on, or tls=off to accept that")
		}
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			pass, err := who.Password()
			return plain.Auth{User: who.User, Pass: pass}, err
		}), nil
	case "scram-sha-256", "scram-sha-512":
		auth := func(context.Context) (scram.Auth, error) {
			pass, err := who.Password()
			return scram.Auth{User: who.User, Pass: pass}, err
		}
		if name == "scram-sha-256" {
			return scram.Sha256(auth), nil
		}
		return scram.Sha512(auth), nil
	}
	return nil, fmt.Errorf("sasl is plain, scram-sha-256, scram-sha-512, oauthbearer or aws-msk-iam, not %q",
		name)
}
