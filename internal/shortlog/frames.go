package shortlog

import (
	"slices"
	"strings"
)

const mostFrames = 16 // of a stack in the log

// Frames lists the first frames of a stack of package debug, "function file:line", from the function on that
// panicked. Each frame has two lines: the function, and its place.
func Frames(stack []byte) (out []string) {
	text := strings.TrimSpace(string(stack))
	if at := strings.LastIndex(text, "\npanic("); at >= 0 { // the frames above recovered from it
		_, text, _ = strings.Cut(text[at+1:], "\n")
	}
	// the place of panic; of a stack without one: "goroutine 7 [running]:"
	_, text, _ = strings.Cut(text, "\n")
	for frame := range slices.Chunk(strings.Split(text, "\n"), 2) {
		if len(frame) < 2 || len(out) == mostFrames {
			break
		}
		at, _, _ := strings.Cut(strings.TrimSpace(frame[1]), " +0x")
		out = append(out, frame[0]+" "+at)
	}
	return out
}
