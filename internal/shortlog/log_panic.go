package shortlog

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// LogPanic logs a panic with the first frames of its stack, and panics again. Defer LogPanic in each
// goroutine that does not belong to one message: the process then ends, but the log has the reason. The
// argument component names the component.
func LogPanic(ctx context.Context, log *slog.Logger, component string) {
	v := recover()
	if v == nil {
		return
	}
	value := Text(fmt.Sprint(v), 200)
	for i, frame := range Frames(debug.Stack()) {
		log.ErrorContext(ctx, "panic: the process ends", "part", component, "panic", value,
			"frame", i, "at", frame)
	}
	panic(v)
}
