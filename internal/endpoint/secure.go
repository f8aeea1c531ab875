package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
)

// TLS returns the TLS settings of the URL, or nil if the URL does not request TLS.
func (u *URL) TLS() (*tls.Config, error) {
	ca, cert, key := u.Get("ca"), u.Get("cert"), u.Get("key")
	switch want := u.Get("tls"); {
	case want != "" && want != "on" && want != "off":
		return nil, fmt.Errorf("tls is on or off, not %q", want)
	case want == "off" && ca+cert+key != "":
		return nil, errors.New("tls=off contradicts ca, cert or key")
	case (cert == "") != (key == ""):
		return nil, errors.New("cert and key need each other: give both")
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
			return nil, fmt.Errorf("read the authorities: there is no certificate in %s: it has to be PEM",
				ca)
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

// identity is the user and password of a client.
type identity struct {
	User string
	// Password returns the password. Call it for each connection, because the password in a file may change.
	Password func() (string, error)
}

// Token returns the user in front of the host if there is no password for this user. NATS uses such a user
// as a token. Otherwise Token returns "".
func (u *URL) Token() string {
	if u.front == nil {
		return ""
	}
	if _, has := u.front.Password(); has || u.Get("password_file") != "" ||
		u.getenv(u.env+"_PASSWORD") != "" {
		return ""
	}
	return u.front.Username()
}

// Identity returns the user and the password from the URL or, if the URL has no user, from the environment.
// If neither has a user, User is empty, and the client connects without a user. Identity reads the password
// once, so that it reports a missing file early.
func (u *URL) Identity() (identity, error) {
	user, file := u.Get("user"), u.Get("password_file")
	if u.front != nil {
		pass, has := u.front.Password()
		switch {
		case user != "", has && file != "":
			return identity{}, errors.New("the URL has a user in front of the host: remove the option user, and password_file if the URL has a password")
		case has:
			return identity{User: u.front.Username(), Password: func() (string, error) { return pass, nil }},
				nil
		}
		user = u.front.Username()
	}
	if user == "" {
		user = u.getenv(u.env + "_USER")
	}
	switch {
	case user == "" && file != "":
		return identity{}, fmt.Errorf("password_file needs a user: give user=NAME, or set %s_USER", u.env)
	case user == "":
		return identity{}, nil
	}
	who := identity{User: user, Password: func() (string, error) { return u.password(file) }}
	_, err := who.Password()
	return who, err
}

func (u *URL) password(file string) (string, error) {
	if file == "" {
		if pass := u.getenv(u.env + "_PASSWORD"); pass != "" {
			return pass, nil
		}
		return "", fmt.Errorf("no password: give password_file=FILE, or set %s_PASSWORD", u.env)
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
