package kafkabroker

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/skald-go/skald/internal/endpoint"
)

// mechanismOf returns the SASL mechanism for a URL with these options and TLS.
func mechanismOf(t *testing.T, query string, env map[string]string, secure bool) (sasl.Mechanism, error) {
	t.Helper()
	kind := endpoint.Kind{Schemes: []string{"kafka"}, Env: "SKALD_KAFKA",
		Options: []string{"sasl", "tls", "user", "password_file", "token_file", "credentials_file"}}
	u, err := kind.Parse("kafka://b-1.demo.kafka.eu-west-1.amazonaws.com:9098?"+query,
		func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	return mechanism(u, secure)
}

// TestBearer: a token is read from its file at each connection, or from the environment, and never shown
// without TLS.
func TestBearer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	m, err := mechanismOf(t, "sasl=oauthbearer&token_file="+file, nil, true)
	if err != nil || m.Name() != "OAUTHBEARER" {
		t.Fatal(m, err)
	}
	for _, token := range []string{"first", "second"} {
		write(token + "\n")
		_, said, err := m.Authenticate(t.Context(), "b:9098")
		if err != nil || string(said) != "n,,\x01auth=Bearer "+token+"\x01\x01" {
			t.Errorf("it says %q: %v", said, err)
		}
	}
	for query, env := range map[string]map[string]string{"sasl=oauthbearer": nil, "sasl=aws-msk-iam": nil} {
		if _, err := mechanismOf(t, query, env, true); err == nil || !strings.Contains(err.Error(), "give ") {
			t.Errorf("%s without a secret: %v", query, err)
		}
		if _, err := mechanismOf(t, query, env, false); err == nil ||
			!strings.Contains(err.Error(), "tls=on") {
			t.Errorf("%s without TLS: %v", query, err)
		}
	}
}

// TestSignature: what is said to AWS is signed as version 4 of its signature asks, worked out here by its
// description alone.
func TestSignature(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	text := "[other]\naws_access_key_id = NO\n[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY\naws_session_token=to/ken==\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := mechanismOf(t, "sasl=aws-msk-iam&credentials_file="+file, nil, true)
	if err != nil || m.Name() != "AWS_MSK_IAM" {
		t.Fatal(m, err)
	}
	const host = "b-1.demo.kafka.eu-west-1.amazonaws.com"
	_, said, err := m.Authenticate(t.Context(), host+":9098")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(said, &got); err != nil {
		t.Fatal(err)
	}
	at := got["x-amz-date"]
	scope := at[:8] + "/eu-west-1/kafka-cluster/aws4_request"
	escaped := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
	query := "Action=kafka-cluster%3AConnect&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" +
		escaped("AKIDEXAMPLE/"+scope) + "&X-Amz-Date=" + at +
		"&X-Amz-Expires=300&X-Amz-Security-Token=" + escaped("to/ken==") + "&X-Amz-SignedHeaders=host"
	hash := func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) }
	request := "GET\n/\n" + query + "\nhost:" + host + "\n\nhost\n" + hash("")
	key := []byte("AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
	for _, part := range []string{at[:8], "eu-west-1", "kafka-cluster", "aws4_request", "AWS4-HMAC-SHA256\n" +
		at + "\n" + scope + "\n" + hash(request)} {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(part))
		key = h.Sum(nil)
	}
	if want := hex.EncodeToString(key); got["x-amz-signature"] != want || got["host"] != host ||
		got["version"] != "2020_10_22" {
		t.Errorf("signed %v, want the signature %s", got, want)
	}
}
