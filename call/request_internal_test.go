package call

import (
	"strings"
	"testing"

	"github.com/skald-go/skald/failure"
)

// A request that JSON would change causes a permanent error, and no call sends other bytes.
func TestRequestThatIsNotUTF8(t *testing.T) {
	_, err := encodeCall(map[string]string{"name": "caf\xe9"}, "k")
	if err == nil || failure.Of(err) != failure.Permanent || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("it is stored: %v", err)
	}
}
