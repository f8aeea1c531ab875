package schema_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/skald-go/skald/schema"
)

// differ lists the changes of the corpus that Apicurio 2.6.13 judges differently: "+" it allows a change
// that Skald refuses, "-" it refuses a change that Skald allows, "!" it returns an error.
func differ() []string {
	return []string{
		// The bytes would become another number.
		"+ AVRO decimal gets another scale, BACKWARD",
		"+ AVRO decimal gets another scale, FORWARD",
		"+ AVRO a date becomes a time, BACKWARD",
		"+ AVRO milliseconds become microseconds, BACKWARD",
		"+ AVRO milliseconds become microseconds, FORWARD",
		"+ AVRO milliseconds of many become microseconds, BACKWARD",
		"+ AVRO milliseconds of many become microseconds, FORWARD",

		// Apicurio does not check these.
		"+ JSON a condition comes, BACKWARD",
		"+ PROTOBUF a message comes, FORWARD",
		"+ PROTOBUF the package changes, BACKWARD",
		"+ PROTOBUF the package changes, FORWARD",
		"+ PROTOBUF two fields move into a oneof, BACKWARD",

		// A writer of an open object may have written anything under the new name. Skald considers only
		// declared properties.
		"- JSON a property comes, BACKWARD",
		"- JSON a property may be null, BACKWARD",

		// Apicurio compares the files, Skald the effect on a payload.
		"- PROTOBUF a field comes, FORWARD",
		"- PROTOBUF a field gets another name, BACKWARD",
		"- PROTOBUF a field gets another name, FORWARD",
		"- PROTOBUF a field goes, its number is reserved, BACKWARD",
		"- PROTOBUF a field goes, its number is reserved, FORWARD",
		"- PROTOBUF a oneof gets a field, FORWARD",
		"- PROTOBUF a required field comes, FORWARD",
		"- PROTOBUF an open enum gets a value, FORWARD",
		"- PROTOBUF int32 becomes int64, BACKWARD",
		"- PROTOBUF optional comes to a field, BACKWARD",
		"- PROTOBUF optional comes to a field, FORWARD",
		"- PROTOBUF string becomes bytes, BACKWARD",

		// Apicurio does not accept a JSON Schema that has neither a type nor properties at its root.
		"! JSON a tree stays, BACKWARD",
		"! JSON a tree stays, FORWARD",
		"! JSON values of a map change, BACKWARD",
		"! JSON values of a map change, FORWARD",
	}
}

// Compares the corpus with a real registry. SKALD_TEST_REGISTRY is the URL of its Confluent API. Each
// difference must be listed in differ. Not part of make test, because it needs a Java program.
func TestChangesBeforeAProduct(t *testing.T) {
	at := os.Getenv("SKALD_TEST_REGISTRY")
	if at == "" {
		t.Skip("SKALD_TEST_REGISTRY is not set")
	}
	client, err := sr.NewClient(sr.URLs(at), sr.HTTPClient(&http.Client{Timeout: time.Minute}))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, format := range []struct {
		name    string
		of      sr.SchemaType
		changes []change
	}{{schema.Avro, sr.TypeAvro, avroChanges()}, {schema.Protobuf, sr.TypeProtobuf, protoChanges()},
		{schema.JSON, sr.TypeJSON, jsonChanges()}} {
		for i, c := range format.changes {
			for level, ours := range map[sr.CompatibilityLevel]bool{sr.CompatBackward: c.back,
				sr.CompatForward: c.forth} {
				theirs, err := allows(t, client, fmt.Sprint("skald-", rand.Text()[:8], "-", i), level,
					format.of, c)
				switch says := fmt.Sprintf("%s %s, %s", format.name, c.name, level); {
				case err != nil:
					t.Logf("%s: %v", says, err)
					found = append(found, "! "+says)
				case theirs && !ours:
					found = append(found, "+ "+says)
				case ours && !theirs:
					found = append(found, "- "+says)
				}
			}
		}
	}
	slices.Sort(found)
	if want := slices.Sorted(slices.Values(differ())); !slices.Equal(found, want) {
		for _, f := range found {
			t.Log(f)
		}
		t.Errorf("%d differences, %d are listed", len(found), len(want))
	}
}

// allows reports whether the registry accepts a change.
func allows(t *testing.T, client *sr.Client, subject string, level sr.CompatibilityLevel, of sr.SchemaType,
	c change) (bool, error) {
	t.Helper()
	ctx := t.Context()
	if _, err := client.CreateSchema(ctx, subject, sr.Schema{Schema: c.before, Type: of}); err != nil {
		return false, fmt.Errorf("register: %w", err)
	}
	defer func() { _, _ = client.DeleteSubject(ctx, subject, sr.SoftDelete) }()
	if r := client.SetCompatibility(ctx, sr.SetCompatibility{Level: level}, subject); r[0].Err != nil {
		return false, fmt.Errorf("level: %w", r[0].Err)
	}
	is, err := client.CheckCompatibility(ctx, subject, -1, sr.Schema{Schema: c.after, Type: of})
	return is.Is, err
}
