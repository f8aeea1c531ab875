package inbox

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// The beginning and the size of a too large record are stored. A small key and small headers are stored,
// too.
func TestCutKeepsTheBeginning(t *testing.T) {
	const most = 900 << 10
	for name, c := range map[string]struct {
		m            skald.Message
		is           bool
		key, headers bool // are stored
	}{
		"small": {skald.Message{Data: make([]byte, 10), Key: []byte("k")}, false, true, true},
		"data": {skald.Message{Data: make([]byte, most+1), Key: []byte("k"),
			Headers: []skald.Header{{Name: "h"}}}, true, true, true},
		"headers": {skald.Message{Key: []byte("k"),
			Headers: []skald.Header{{Name: "h", Value: make([]byte, most+1)}}}, true, true, false},
		"key": {skald.Message{Key: make([]byte, most+1), Headers: []skald.Header{{Name: "h"}}}, true,
			false, false},
		"an attribute": {skald.Message{ID: strings.Repeat("i", most+1), Key: []byte("k")}, true, true, false},
	} {
		d := &broker.Delivery{Message: c.m}
		if oversized(d, most) != c.is {
			t.Errorf("%s: too large is %v", name, !c.is)
		}
		if !c.is {
			continue
		}
		size := len(d.Data)
		cutOversized(d, most)
		var large *broker.TooLargeError
		if !errors.As(d.Fault, &large) || large.Bytes <= most || large.Limit != most ||
			len(large.SHA256) != 64 {
			t.Errorf("%s: the fault is %v", name, d.Fault)
		}
		if len(d.Data) != min(size, keptData) || (d.Key != nil) != c.key || len(d.ID) > 2*keptText {
			t.Errorf("%s: kept are %d bytes, a key of %d, an id of %d", name, len(d.Data),
				len(d.Key), len(d.ID))
		}
		if c.m.Headers != nil && (d.Headers != nil) != c.headers {
			t.Errorf("%s: kept are %d headers", name, len(d.Headers))
		}
	}
	d := &broker.Delivery{Message: skald.Message{Data: bytes.Repeat([]byte("x"), most+1)}}
	if cutOversized(d, most); cap(d.Data) > 2*keptData {
		t.Errorf("the stored part needs %d bytes", cap(d.Data))
	}
}
