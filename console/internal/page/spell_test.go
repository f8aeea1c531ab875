package page

import (
	"testing"
	"time"
)

// A formatted key parses back to the same bytes; a nil key and an empty key differ.
func TestKey(t *testing.T) {
	for _, key := range []string{"o-1", "", " ", "base64:o-1", "\x00\xff", "a\nb", "Bäume"} {
		text := Key([]byte(key))
		back, err := ToKey(text)
		if err != nil || string(back) != key || back == nil {
			t.Errorf("%q is shown as %q, and that is %q: %v", key, text, back, err)
		}
	}
	if text := Key(nil); text != "" {
		t.Errorf("no key is shown as %q", text)
	}
	if key, err := ToKey("base64:?"); err == nil {
		t.Errorf("it is %q", key)
	}
}

// Numbers have thousands separators, and inexact counts have "about".
func TestNumber(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -999: "-999",
		12345678: "12,345,678"} {
		if got := Number(n); got != want {
			t.Errorf("%d is shown as %q", n, got)
		}
	}
	if exact, about := Counted(Exact), Counted(Exact+1); exact != "10,000" ||
		about != "about 10,001" {
		t.Errorf("%q, %q", exact, about)
	}
}

// Durations are rounded as people write them.
func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "–", 1500 * time.Millisecond: "2s",
		90 * time.Second: "1m30s", 25 * time.Hour: "25h0m", 50 * time.Hour: "2 days"} {
		if got := Ago(d); got != want {
			t.Errorf("%v is shown as %q", d, got)
		}
	}
}

// A text is cut between characters.
func TestCut(t *testing.T) {
	if got := Cut("Bäume", 2); got != "Bä…" || Cut("Bäume", 5) != "Bäume" {
		t.Errorf("%q", got)
	}
}

func TestExactly(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 1_234_567: "1ms", 2_458_400_000: "2.458s",
		time.Hour + 1500*time.Millisecond: "1h0m2s"} {
		if got := Exactly(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}
