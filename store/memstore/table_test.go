package memstore

import (
	"maps"
	"testing"
)

func TestViewHidesWhatIsNotCommitted(t *testing.T) {
	rows := map[string]int{"a": 1}
	v := newView(rows)
	v.Put("a", 2)
	v.Put("b", 3)
	v.Put("c", 4)
	v.Undo("c")
	for key, want := range map[string]int{"a": 2, "b": 3} {
		if got, there := v.Get(key); !there || got != want {
			t.Errorf("%s is %d, %v in the view, want %d", key, got, there, want)
		}
	}
	if _, there := v.Get("c"); there || !v.HasWrites() {
		t.Error("c was undone, and a and b are written")
	}
	if !maps.Equal(rows, map[string]int{"a": 1}) {
		t.Errorf("before the commit others see %v", rows)
	}
	if v.Commit(); !maps.Equal(rows, map[string]int{"a": 2, "b": 3}) {
		t.Errorf("after the commit others see %v", rows)
	}
}

func TestMoveMovesEachRowOnce(t *testing.T) {
	rows := map[int]string{1: "a", 2: "b", 9: "z"}
	move(rows, func(k int, v string) (int, string, bool) { return k + 10, v + "!", k < 9 })
	if !maps.Equal(rows, map[int]string{11: "a!", 12: "b!", 9: "z"}) {
		t.Errorf("they are %v", rows)
	}
}
