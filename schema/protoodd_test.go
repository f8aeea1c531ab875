package schema_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/protobuf"
	"github.com/skald-go/skald/store/memstore"
)

const oddProto = `syntax = "proto3";
package odd;
import "google/protobuf/any.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
message Odd {
  google.protobuf.Any any = 1;
  google.protobuf.Timestamp at = 2;
  double n = 3;
  google.protobuf.Value value = 4;
  google.protobuf.Duration span = 5;
  repeated Own own = 6;
  map<string, Own> by = 7;
  int64 big = 8;
}
message Own { string name = 1; float f = 2; Kind kind = 3; bytes raw = 4; }
enum Kind { NONE = 0; ONE = 1; }
`

func field(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

func varint(number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), v)
}

// doctor and Readable can read every payload that matches its schema, whatever its values. No error
// contains the values.
func TestOddProtobuf(t *testing.T) {
	t.Parallel()
	nan := protowire.AppendFixed64(nil, math.Float64bits(math.NaN()))
	own := field(1, []byte("secret"))
	for name, c := range map[string]struct{ data, want string }{
		"an Any of its own type": {string(field(1, append(field(1, []byte("type.x/odd.Own")), field(2,
			own)...))),
			`{"any":{"@type":"type.x/odd.Own","name":"secret"}}`},
		"an Any of an unknown type": {string(field(1, append(field(1, []byte("type.x/other.T")), field(2,
			own)...))),
			`{"any":{"type_url":"type.x/other.T","value":"CgZzZWNyZXQ="}}`},
		"an Any of broken bytes": {string(field(1, append(field(1, []byte("type.x/odd.Own")), field(2,
			[]byte("secret"))...))),
			`{"any":{"type_url":"type.x/odd.Own","value":"c2VjcmV0"}}`},
		"a year beyond 9999": {string(append(field(2, varint(1, 1<<60)), varint(8, 1<<62)...)),
			`{"at":{"seconds":"1152921504606846976"},"big":"4611686018427387904"}`},
		"negative nanoseconds": {string(field(2, varint(2, math.MaxUint64))), `{"at":{"nanos":-1}}`},
		"NaN": {string(append(protowire.AppendTag(nil, 3, protowire.Fixed64Type), nan...)),
			`{"n":"NaN"}`},
		"NaN in a Value": {string(field(4, append(protowire.AppendTag(nil, 2, protowire.Fixed64Type),
			nan...))),
			`{"value":{"number_value":"NaN"}}`},
		"a Value of nothing": {string(field(4, nil)), `{"value":{}}`},
		"signs that differ": {string(field(5, append(varint(1, 1), varint(2, math.MaxUint64)...))),
			`{"span":{"nanos":-1,"seconds":"1"}}`},
		"all of it beside": {string(field(5, append(varint(1, 1), varint(2, math.MaxUint64)...))) +
			string(field(6, append(own, varint(3, 7)...))) + string(field(7, append(field(1, []byte("k")),
			field(2, append(varint(3, 1), field(4, []byte{1})...))...))),
			`{"by":{"k":{"kind":"ONE","raw":"AQ=="}},"own":[{"kind":7,"name":"secret"}],"span":{"nanos":-1,"seconds":"1"}}`},
		"broken": {"\x0a\x06secret", ""},
	} {
		s := schema.Schema{Format: schema.Protobuf, Text: oddProto}
		out, err := protobuf.Format{}.Readable(s, []int{0}, []byte(c.data))
		var got any
		_ = json.Unmarshal(out, &got)
		sorted, _ := json.Marshal(got)
		if (err == nil) != (c.want != "") || err == nil && string(sorted) != c.want ||
			err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %s, %v, want %s", name, sorted, err, c.want)
		}
		db := memstore.New(nil)
		text, _ := json.Marshal(s)
		if err := db.KeepPayloadSchema(t.Context(), "", "7", string(text)); err != nil {
			t.Fatal(err)
		}
		by := schema.Inspector{Kept: db, Formats: []schema.Format{protobuf.Format{}}}
		saw, err := by.Inspect(t.Context(), skald.Message{Data: append([]byte{0, 0, 0, 0, 7, 0}, c.data...)})
		if err != nil || (saw.Wrong == "") != (c.want != "") || strings.Contains(saw.Wrong, "secret") {
			t.Errorf("%s: doctor says %+v, %v", name, saw, err)
		}
	}
}
