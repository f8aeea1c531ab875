package shortlog_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/skald-go/skald/internal/shortlog"
)

func TestLongTextsAreCut(t *testing.T) {
	var out bytes.Buffer
	l := shortlog.New(slog.New(slog.NewTextHandler(&out, nil)))
	long := strings.Repeat("x", 900_000)
	shortlog.New(l).With("key", long).WithGroup("g").Warn("failed", "id", long, "error", errors.New(long),
		"n", 7, "short", "as it is", "types", []string{long}, slog.Group("of", "type", long))
	line := out.String()
	if len(line) > 6000 || strings.Count(line, "(900000 bytes)") != 5 || !strings.Contains(line, "g.n=7") ||
		!strings.Contains(line, `g.short="as it is"`) {
		t.Errorf("%d bytes: %.300s", len(line), line)
	}
}
