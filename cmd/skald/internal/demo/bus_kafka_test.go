package demo

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/internal/need"
)

// A topic that was made anew since it was looked at is not deleted; one that is gone is no matter.
func TestDeleteTopicsOfOneLife(t *testing.T) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(need.Kafka(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm, name := kadm.NewClient(cl), "demo_"+strings.ToLower(rand.Text()[:10])
	session := func() string {
		t.Helper()
		made, err := adm.CreateTopic(t.Context(), 1, -1, nil, name)
		if err != nil {
			t.Fatal(err)
		}
		return made.ID.String()
	}
	first := session()
	for range 2 { // again, as after a crash
		if err := deleteTopics(t.Context(), cl, map[string]string{name: first}); err != nil {
			t.Fatal(err)
		}
	}
	second := session() // it would fail if the first were there
	if err := deleteTopics(t.Context(), cl, map[string]string{name: first}); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopic(t.Context(), 1, -1, nil, name); err == nil {
		t.Error("the second was deleted for the first")
	}
	if err := deleteTopics(t.Context(), cl, map[string]string{name: second}); err != nil {
		t.Error(err)
	}
}
