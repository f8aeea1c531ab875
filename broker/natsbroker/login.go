// This file reads the user and the TLS settings from a nats:// URL, and recognizes refusals by NATS.

package natsbroker

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/skald-go/skald/internal/endpoint"
)

// options returns the connection options for the TLS settings and the user in a URL.
func options(u *endpoint.URL) (out []nats.Option, err error) {
	secure, err := u.TLS()
	if err != nil {
		return nil, err
	}
	if secure != nil {
		out = append(out, nats.Secure(secure))
	}
	who, err := identity(u)
	if who != nil {
		out = append(out, who)
	}
	return out, err
}

// identity returns the option that authenticates the client, or nil if the URL and the environment have no
// user.
func identity(u *endpoint.URL) (nats.Option, error) {
	creds, nkey := u.Get("creds"), u.Get("nkey")
	switch {
	case creds+nkey == "":
		return password(u)
	case creds != "" && nkey != "", u.InFront(), u.Get("user")+u.Get("password_file") != "":
		return nil, errors.New("creds, nkey, and user with password_file exclude each other: give one of them")
	case nkey != "":
		with, err := nats.NkeyOptionFromSeed(nkey)
		if err != nil {
			return nil, fmt.Errorf("read the nkey %s: the file has no seed of a user: %w", nkey, err)
		}
		return with, nil
	}
	if _, err := os.Stat(creds); err != nil {
		return nil, fmt.Errorf("read the credentials: %w", err)
	}
	return nats.UserCredentials(creds), nil
}

func password(u *endpoint.URL) (nats.Option, error) {
	if token := u.Token(); token != "" {
		return nats.Token(token), nil
	}
	who, err := u.Identity()
	if err != nil || who.User == "" {
		return nil, err
	}
	return nats.UserInfoHandler(func() (string, string) {
		pass, _ := who.Password() // if the file is missing, the server refuses the empty password
		return who.User, pass
	}), nil
}

// refused returns true if NATS refuses the client, or an action for which a right is missing.
func refused(err error) bool {
	return slices.ContainsFunc([]error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked,
		nats.ErrAccountAuthExpired, nats.ErrPermissionViolation},
		func(no error) bool { return errors.Is(err, no) })
}
