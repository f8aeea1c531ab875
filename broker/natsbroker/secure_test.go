package natsbroker_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/natsbroker"
)

// guarded starts a NATS server that authenticates clients.
func guarded(t *testing.T, set func(*server.Options)) (addr string) {
	t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir()}
	set(o)
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(5 * time.Minute) {
		t.Fatal("NATS does not start")
	}
	return s.Addr().String()
}

func dial(t *testing.T, url string) (*natsbroker.Broker, error) {
	t.Helper()
	servers, opts, err := natsbroker.ParseURL(url, os.Getenv)
	if err != nil {
		return nil, err
	}
	b, err := natsbroker.New(servers, opts)
	if err == nil {
		t.Cleanup(func() { b.Close() })
	}
	return b, err
}

// opens returns nil if a client with the URL can publish a message and receive it.
func opens(t *testing.T, url string) error {
	t.Helper()
	b, err := dial(t, url)
	if err != nil {
		return err
	}
	if err := b.MakeTopics(t.Context(), 1, "t"); err != nil {
		return err
	}
	if err := b.Publish(t.Context(), []skald.Message{message("t", "k", 0)}).Wait(t.Context()); err != nil {
		return err
	}
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	if err != nil {
		return err
	}
	receive(t, sub, func(ds []broker.Delivery) bool { return len(ds) > 0 })
	return sub.Close(t.Context())
}

// authority is a certificate authority that writes certificates to a folder.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign(name, nil)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// sign writes the files name.pem and name.key.
func (a *authority) sign(name string, ips []net.IP) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject: pkix.Name{CommonName: name}, IPAddresses: ips,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IsCA:     a.cert == nil, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	write(a.t, a.file(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(a.t, a.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))
	made, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return made, key
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTLS: a server that speaks TLS, and one that asks for the client's certificate. What is wrong is an
// outage, which says why: an operator can put it right while it is asked again.
func TestTLS(t *testing.T) {
	ours, others := newAuthority(t, "ca"), newAuthority(t, "ca")
	ours.sign("server", []net.IP{net.IPv4(127, 0, 0, 1)})
	ours.sign("client", nil)
	others.sign("client", nil)
	pair, err := tls.LoadX509KeyPair(ours.file("server.pem"), ours.file("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	secret := func(verify bool) string {
		return guarded(t, func(o *server.Options) {
			o.TLS, o.TLSVerify, o.TLSTimeout = true, verify, 30
			o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool,
				MinVersion: tls.VersionTLS12}
			if verify {
				o.TLSConfig.ClientAuth = tls.RequireAndVerifyClientCert
			}
		})
	}
	open, mutual, plain := secret(false), secret(true), serve(t, t.TempDir(), 0).Addr().String()
	ca := "?ca=" + ours.file("ca.pem")
	client := func(a *authority) string {
		return "&cert=" + a.file("client.pem") + "&key=" + a.file("client.key")
	}
	for url, wrong := range map[string]string{
		open + ca:                             "",
		open + ca + "&tls=on":                 "",
		mutual + ca + client(ours):            "",
		open:                                  "certificate",
		open + "?tls=on":                      "certificate",
		open + "?ca=" + others.file("ca.pem"): "certificate",
		mutual + ca:                           "tls",
		mutual + ca + client(others):          "tls",
		plain + ca:                            "secure",
	} {
		err := opens(t, "nats://"+url)
		if wrong == "" && err != nil || wrong != "" &&
			(!errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%s: %v, want %q", url, err, wrong)
		}
	}
}

// user returns pair, its public key and its secret seed.
func user(t *testing.T, pair nkeys.KeyPair, err error) (nkeys.KeyPair, string, []byte) {
	t.Helper()
	public, err2 := pair.PublicKey()
	seed, err3 := pair.Seed()
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	return pair, public, seed
}

// TestNkey: the seed in a file opens the server that knows its public half.
func TestNkey(t *testing.T) {
	pair, err := nkeys.CreateUser()
	_, public, seed := user(t, pair, err)
	pair, err = nkeys.CreateUser()
	_, _, stranger := user(t, pair, err)
	addr := guarded(t, func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} })
	file := filepath.Join(t.TempDir(), "seed")
	write(t, file, stranger)
	err = opens(t, "nats://"+addr+"?nkey="+file)
	if !errors.Is(err, nats.ErrAuthorization) || errors.Is(err, broker.ErrUnavailable) ||
		strings.Contains(err.Error(), string(stranger)) {
		t.Errorf("a stranger: %v", err)
	}
	write(t, file, seed)
	if err := opens(t, "nats://"+addr+"?nkey="+file); err != nil {
		t.Error(err)
	}
	write(t, file, []byte("SUhush"))
	if err := opens(t, "nats://"+addr+"?nkey="+file); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("no seed: %v", err)
	}
}

// TestCredentials: a user that an account has signed, in a server that trusts its operator. The file is read
// again for each connection.
func TestCredentials(t *testing.T) {
	pair, err := nkeys.CreateOperator()
	operator, _, _ := user(t, pair, err)
	pair, err = nkeys.CreateAccount()
	account, accountKey, _ := user(t, pair, err)
	pair, err = nkeys.CreateAccount()
	_, systemKey, _ := user(t, pair, err)
	operatorKey, _ := operator.PublicKey()
	trusted := jwt.NewOperatorClaims(operatorKey)
	trusted.SystemAccount = systemKey
	resolver := &server.MemAccResolver{}
	for _, key := range []string{accountKey, systemKey} {
		claims := jwt.NewAccountClaims(key)
		if key == accountKey {
			claims.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1,
				Streams: -1, Consumer: -1}
		}
		text, err := claims.Encode(operator)
		if err == nil {
			err = resolver.Store(key, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := trusted.Encode(operator); err != nil {
		t.Fatal(err)
	}
	addr := guarded(t, func(o *server.Options) {
		o.TrustedOperators, o.AccountResolver, o.SystemAccount = []*jwt.OperatorClaims{trusted},
			resolver, systemKey
	})
	credentials := func(by nkeys.KeyPair) []byte {
		t.Helper()
		pair, err := nkeys.CreateUser()
		_, public, seed := user(t, pair, err)
		text, err := jwt.NewUserClaims(public).Encode(by)
		if err != nil {
			t.Fatal(err)
		}
		file, err := jwt.FormatUserConfig(text, seed)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	file := filepath.Join(t.TempDir(), "user.creds")
	// With the first client of an account the server makes and removes the folder of its streams, and lets
	// others make streams meanwhile: so the first one is alone.
	write(t, file, credentials(account))
	first, err := nats.Connect(addr, nats.UserCredentials(file))
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	pair, err = nkeys.CreateAccount()
	stranger, _, _ := user(t, pair, err)
	url := "nats://" + addr + "?creds=" + file
	wrong := credentials(stranger)
	write(t, file, wrong)
	err = opens(t, url)
	seed := bytes.SplitAfter(wrong, []byte("USER NKEY SEED-----"))[1][:20]
	if !errors.Is(err, nats.ErrAuthorization) || errors.Is(err, broker.ErrUnavailable) ||
		strings.Contains(err.Error(), strings.TrimSpace(string(seed))) {
		t.Errorf("of a strange account: %v", err)
	}
	b, err := dial(t, url)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, credentials(account))
	if err := opens(t, url); err != nil {
		t.Error(err)
	}
	until(t, "the file that is right now", func() bool { return b.MakeTopics(t.Context(), 1, "t") == nil })
}

// TestLeastRights: a relay and an inbox with the rights that docs/brokers.md lists, and no others; without
// the right to write a subject its messages are refused, by the name of the right, and others go on.
func TestLeastRights(t *testing.T) {
	allow := func(pub ...string) *server.Permissions {
		return &server.Permissions{Publish: &server.SubjectPermission{Allow: pub},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}}}
	}
	look := []string{"$JS.API.STREAM.INFO.t", "$JS.API.STREAM.INFO.u", "$JS.API.STREAM.INFO.KV_skald",
		"$JS.API.DIRECT.GET.KV_skald.>"}
	addr := guarded(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "p"},
			{Username: "relay", Password: "p", Permissions: allow(append(look, "t.*")...)},
			{Username: "inbox", Password: "p", Permissions: allow(append(look, "$KV.skald.>",
				"$JS.API.CONSUMER.CREATE.KV_skald.>", "$JS.API.CONSUMER.DELETE.KV_skald.>",
				"$JS.API.CONSUMER.CREATE.t.>", "$JS.API.CONSUMER.DELETE.t.>", "$JS.API.CONSUMER.INFO.t.>",
				"$JS.API.CONSUMER.MSG.NEXT.t.>", "$JS.API.STREAM.PURGE.KV_skald")...)},
		}
	})
	as := func(name string) *natsbroker.Broker {
		t.Helper()
		t.Setenv("SKALD_NATS_PASSWORD", "p")
		b, err := dial(t, "nats://"+addr+"?user="+name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if err := as("admin").MakeTopics(t.Context(), 2, "t", "u"); err != nil {
		t.Fatal(err)
	}
	relay := as("relay")
	if _, err := relay.Incarnation(t.Context()); err != nil {
		t.Error(err)
	}
	err := relay.Publish(t.Context(), []skald.Message{message("u", "k", 0),
		message("t", "k", 0)}).Wait(t.Context())
	var pe *broker.PublishError
	if !errors.As(err, &pe) || len(pe.Failed) != 0 || len(pe.Refused) != 1 ||
		!errors.Is(pe.Refused[0], nats.ErrPermissionViolation) || !strings.Contains(err.Error(), `"u.`) {
		t.Errorf("published without a right: %v", err)
	}
	if err := relay.MakeTopics(t.Context(), 1, "v"); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("made a topic without a right: %v", err)
	}
	sub, err := as("inbox").Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	ds := receive(t, sub, func(ds []broker.Delivery) bool { return len(ds) == 1 })
	if err := errors.Join(sub.Ack(t.Context(), ds), sub.Close(t.Context())); err != nil {
		t.Error(err)
	}
}
