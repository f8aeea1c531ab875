package cloudevents_test

import (
	"reflect"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/internal/cloudevents"
)

// What a connector that reads the outbox writes to an exact broker: all headers of a message in one, NULL
// where a column is NULL.
func TestHeadersOfAConnector(t *testing.T) {
	t.Parallel()
	codec := cloudevents.New(styles()["exact"])
	for list, want := range map[string][]skald.Header{
		"": nil,
		`[["x", "AP8="], ["x", ""], ["b", "YQ=="]]`: {{Name: "x", Value: []byte{0, 255}}, {Name: "x", Value: []byte{}}, {Name: "b", Value: []byte("a")}},
		`not a list`: {{Name: "Skald-Headers", Value: []byte("not a list")}}, // somebody else's
	} {
		w := &wire{}
		for _, h := range [][2]string{{"ce_specversion", "1.0"}, {"ce_id", "7"}, {"ce_subject", ""}, {"ce_partitionkey", ""}, {"Skald-Headers", list}} {
			w.Text(h[0], h[1])
		}
		var got skald.Message
		if fault := cloudevents.Decode(codec, w.list, at, &got, nil); fault != nil {
			t.Error(fault)
		}
		if got.ID != "7" || len(got.Headers) != len(want) || len(want) > 0 && !reflect.DeepEqual(got.Headers, want) {
			t.Errorf("%s: %+v, want headers %+v", list, got, want)
		}
	}
}
