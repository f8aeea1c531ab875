package operate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// Of a payload that cannot be read another attempt reads the same: it is mended in its place.
func TestHolderNamesWhatHelps(t *testing.T) {
	db := memstore.New(nil)
	for id, kind := range map[string]string{"m-1": "malformed", "m-2": "attempts"} {
		m := skald.Message{ID: id, Source: "/shop", Topic: "orders", Type: "order.placed", Key: []byte(id)}
		stood, err := db.Apply(t.Context(), store.Effect{Park: &store.Park{Parked: store.Parked{
			Consumer: "stock", Identity: store.Identity{Source: m.Source, ID: id}, Message: m,
			Last: store.Failure{At: time.Now(), Why: "no"},
			Dead: &store.Death{At: time.Now(), Kind: kind, Fingerprint: "f"}}}})
		if err != nil || !stood[0] {
			t.Fatal(stood, err)
		}
		verb := map[string]string{"m-1": "skald dead edit", "m-2": "skald dead redrive"}[id]
		held, err := operate.BlockingMessages(t.Context(), db, [][]byte{m.Key}, "")
		if err != nil || len(held) != 1 || !strings.HasPrefix(held[0].Command, verb+" --consumer stock") {
			t.Errorf("%s: %+v, %v: want %s", kind, held, err, verb)
		}
	}
}
