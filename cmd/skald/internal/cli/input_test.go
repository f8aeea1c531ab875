package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestFilesAreBounded checks that a file above the limit, or without an end, is refused.
func TestFilesAreBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := ReadFile(name, 100); err != nil || len(b) != 100 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	var usage *UsageError
	for _, large := range []string{name, "/dev/zero"} {
		if _, err := ReadFile(large, 99); !errors.As(err, &usage) {
			t.Errorf("%s: %v", large, err)
		}
	}
	var none *NoneError
	if _, err := ReadFile(name+"x", 99); !errors.As(err, &none) {
		t.Error(err)
	}
}
