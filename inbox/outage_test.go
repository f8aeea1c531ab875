package inbox

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/broker"
)

func TestOutage(t *testing.T) {
	refused := fmt.Errorf("%w: refused", broker.ErrUnavailable)
	for name, tt := range map[string]struct {
		alive bool
		after time.Duration
		over  bool
	}{
		"no error for a moment": {after: calm - 1},
		"no error for a while":  {after: calm, over: true},
		"a message came":        {alive: true, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			now, o := time.Unix(1e9, 0), newOutage(slog.New(slog.NewTextHandler(&log, nil)))
			o.Received(1)
			if o.Over(now); log.Len() > 0 {
				t.Errorf("the end of an outage that never began: %s", &log)
			}
			o.Failed(now, refused)
			if !errors.Is(o.Why(), refused) || !strings.Contains(log.String(), "the broker is away") {
				t.Errorf("away because of %v: %s", o.Why(), &log)
			}
			if tt.alive {
				o.Received(1)
			}
			o.Over(now.Add(tt.after))
			if back := strings.Contains(log.String(), "the broker is back"); back != tt.over ||
				(o.Why() == nil) != tt.over {
				t.Errorf("back %v, away because of %v", back, o.Why())
			}
		})
	}
}
