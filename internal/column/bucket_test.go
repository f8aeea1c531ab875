package column

import (
	"testing"

	"github.com/skald-go/skald"
)

func TestBucket(t *testing.T) {
	// sha256("") begins e3b0, sha256("abc") begins ba78 (FIPS 180-4 examples).
	for _, c := range []struct {
		m    skald.Message
		want int
	}{
		{skald.Message{Key: []byte("")}, 0xe3b0 % 1024},
		{skald.Message{ID: ""}, 0xe3b0 % 1024},
		{skald.Message{Key: []byte("abc")}, 0xba78 % 1024},
		{skald.Message{ID: "abc"}, 0xba78 % 1024},
		{skald.Message{ID: "x", Key: []byte("abc")}, 0xba78 % 1024},
	} {
		if got := Bucket(&c.m); got != c.want {
			t.Errorf("Bucket(%q, %q) = %d, want %d", c.m.ID, c.m.Key, got, c.want)
		}
	}
}
