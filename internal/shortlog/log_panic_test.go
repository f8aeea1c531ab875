package shortlog

import (
	"context"
	"log/slog"
	"strings"
	"testing"
)

func failing() { panic("no shard") }

func TestPanicIsLoggedBeforeTheProcessEnds(t *testing.T) {
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, nil))
	func() {
		defer func() {
			if v := recover(); v != "no shard" {
				t.Errorf("recovered %v", v)
			}
		}()
		defer LogPanic(context.Background(), log, "relay")
		failing()
	}()
	first, _, _ := strings.Cut(text.String(), "\n")
	for _, part := range []string{"level=ERROR", "part=relay", `panic="no shard"`, "frame=0", "shortlog.failing"} {
		if !strings.Contains(first, part) {
			t.Errorf("no %s in %s", part, first)
		}
	}
	text.Reset()
	func() { defer LogPanic(context.Background(), log, "relay") }()
	if text.Len() > 0 {
		t.Error(text.String())
	}
}
