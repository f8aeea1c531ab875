package sqlexec

import "testing"

func TestOlderThan(t *testing.T) {
	for version, old := range map[string]bool{"3.51.2": true, "3.50.9": true, "2.99.99": true,
		"3.51.3": false, "3.51.10": false, "3.52.0": false, "4.0.0": false, "x": true} {
		if got := olderThan(version, 3, 51, 3); got != old {
			t.Errorf("olderThan(%s) = %v", version, got)
		}
	}
}
