package column

import (
	"reflect"
	"slices"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// TestEachFieldCounts checks that each field of an effect is considered, including future ones.
func TestEachFieldCounts(t *testing.T) {
	yours := []string{"Rows", "Answer", "Saga", "Tracked"}
	for f := range reflect.TypeFor[store.Effect]().Fields() {
		var e store.Effect
		v := reflect.ValueOf(&e).Elem().FieldByIndex(f.Index)
		if v.Kind() == reflect.Slice {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		} else {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if got, want := RowsOnly(e), slices.Contains(yours, f.Name); got != want {
			t.Errorf("%s: rows only: %v", f.Name, got)
		}
		if got, want := ShardOnly(e), f.Name == "Shard"; got != want {
			t.Errorf("%s: shard only: %v", f.Name, got)
		}
	}
	if !RowsOnly(store.Effect{Rows: []skald.Message{{}}, Answer: &store.Mark{}, Saga: &store.SagaUpdate{}}) ||
		ShardOnly(store.Effect{}) {
		t.Error("two fields, or none")
	}
}
