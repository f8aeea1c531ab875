package kafkabroker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// tls is nil if the connection is not to be encrypted.
func (o *urlOptions) tls() (*tls.Config, error) {
	ca, cert, key := o.values.Get("ca"), o.values.Get("cert"), o.values.Get("key")
	switch want := o.values.Get("tls"); {
	case want != "" && want != "on" && want != "off":
		return nil, fmt.Errorf("tls is on or off, not %q", want)
	case want == "off" && ca+cert+key != "":
		return nil, errors.New("tls=off, and yet ca, cert or key is given")
	case (cert == "") != (key == ""):
		return nil, errors.New("cert and key belong together: give both")
	case want != "on" && ca+cert == "":
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("read the authorities: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the authorities: there is no certificate in %s: it has to be PEM", ca)
		}
	}
	if cert == "" {
		return out, nil
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("load the client's certificate: %w", err)
		}
		return &pair, nil
	}
	out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	_, err := load()
	return out, err
}

// sasl is nil if nobody has to say who they are.
func (o *urlOptions) sasl(secure bool) (sasl.Mechanism, error) {
	name, user, file := o.values.Get("sasl"), o.values.Get("user"), o.values.Get("password_file")
	if name == "" {
		if user+file != "" {
			return nil, errors.New("user or password_file is given without sasl: say sasl=plain, scram-sha-256 or scram-sha-512")
		}
		return nil, nil
	}
	if user == "" {
		user = o.getenv("SKALD_KAFKA_USER")
	}
	if user == "" {
		return nil, fmt.Errorf("sasl=%s needs a user: give user=NAME, or set SKALD_KAFKA_USER", name)
	}
	password := o.password(file)
	if _, err := password(); err != nil {
		return nil, err
	}
	switch name {
	case "plain":
		if !secure && o.values.Get("tls") != "off" {
			return nil, errors.New("sasl=plain without TLS shows the password to the network: say tls=on, or tls=off if it may")
		}
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			pass, err := password()
			return plain.Auth{User: user, Pass: pass}, err
		}), nil
	case "scram-sha-256", "scram-sha-512":
		auth := func(context.Context) (scram.Auth, error) {
			pass, err := password()
			return scram.Auth{User: user, Pass: pass}, err
		}
		if name == "scram-sha-256" {
			return scram.Sha256(auth), nil
		}
		return scram.Sha512(auth), nil
	}
	return nil, fmt.Errorf("sasl is plain, scram-sha-256 or scram-sha-512, not %q", name)
}

// password is asked for each connection, so that a secret that is renewed in its file is taken up.
func (o *urlOptions) password(file string) func() (string, error) {
	return func() (string, error) {
		if file == "" {
			if pass := o.getenv("SKALD_KAFKA_PASSWORD"); pass != "" {
				return pass, nil
			}
			return "", errors.New("no password: give password_file=FILE, or set SKALD_KAFKA_PASSWORD")
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
		pass := strings.TrimRight(string(text), "\r\n")
		if pass == "" {
			return "", fmt.Errorf("read the password: %s is empty", file)
		}
		return pass, nil
	}
}
