package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/oauth"

	"github.com/skald-go/skald/internal/endpoint"
)

// bearer returns the mechanism for a token that another program renews. It reads the token from token_file
// for each connection, or from SKALD_KAFKA_TOKEN.
func bearer(u *endpoint.URL, secure bool) (sasl.Mechanism, error) {
	if !secure && u.Get("tls") != "off" {
		return nil, errors.New("sasl=oauthbearer without TLS shows the token to the network: add tls=on, or tls=off to accept that")
	}
	token := func() (string, error) {
		file, text := u.Get("token_file"), u.Env("SKALD_KAFKA_TOKEN")
		if file != "" {
			read, err := os.ReadFile(file)
			if err != nil {
				return "", fmt.Errorf("read the token: %w", err)
			}
			text = string(read)
		}
		if text = strings.TrimSpace(text); text == "" {
			return "",
				errors.New("sasl=oauthbearer needs a token: give token_file=FILE, or set SKALD_KAFKA_TOKEN")
		}
		return text, nil
	}
	if _, err := token(); err != nil {
		return nil, err
	}
	return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
		t, err := token()
		return oauth.Auth{Token: t}, err
	}), nil
}

// iam returns the mechanism that signs requests with an AWS access key (signature version 4). It reads the
// key from credentials_file for each connection; the file has the format of ~/.aws/credentials, and the
// profile is default. Without a file, it reads AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
// AWS_SESSION_TOKEN. The region is in the broker's host name, or else in AWS_REGION.
func iam(u *endpoint.URL, secure bool) (sasl.Mechanism, error) {
	if !secure && u.Get("tls") != "off" {
		return nil, errors.New("sasl=aws-msk-iam without TLS shows a session's token to the network: add tls=on, or tls=off to accept that")
	}
	read := func(context.Context) (aws.Auth, error) {
		auth := aws.Auth{AccessKey: u.Env("AWS_ACCESS_KEY_ID"), SecretKey: u.Env("AWS_SECRET_ACCESS_KEY"),
			SessionToken: u.Env("AWS_SESSION_TOKEN"), UserAgent: "skald"}
		if file := u.Get("credentials_file"); file != "" {
			text, err := os.ReadFile(file)
			if err != nil {
				return auth, fmt.Errorf("read the access key: %w", err)
			}
			auth.AccessKey, auth.SecretKey, auth.SessionToken = profile(string(text))
		}
		if auth.AccessKey == "" || auth.SecretKey == "" {
			return auth, errors.New("sasl=aws-msk-iam needs an access key: give credentials_file=FILE with aws_access_key_id and aws_secret_access_key in [default], " +
				"or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
		}
		return auth, nil
	}
	if _, err := read(context.Background()); err != nil {
		return nil, err
	}
	return aws.ManagedStreamingIAM(read), nil
}

// profile returns the keys of the section [default] of a credentials file.
func profile(text string) (key, secret, session string) {
	section := ""
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		name, value, _ := strings.Cut(line, "=")
		if section != "[default]" {
			continue
		}
		switch value = strings.TrimSpace(value); strings.TrimSpace(name) {
		case "aws_access_key_id":
			key = value
		case "aws_secret_access_key":
			secret = value
		case "aws_session_token":
			session = value
		}
	}
	return key, secret, session
}
