package shortlog

import (
	"slices"
	"strings"
)

const mostFrames = 16 // limits the frames of a stack in the log

// Frames returns the first frames of a stack of package debug, each as "function file:line". The first frame
// is the function that panicked. stack has two lines for each frame: the function, and its file.
func Frames(stack []byte) (out []string) {
	text := strings.TrimSpace(string(stack))
	if at := strings.LastIndex(text, "\npanic("); at >= 0 { // skip the frames that recovered from the panic
		_, text, _ = strings.Cut(text[at+1:], "\n")
	}
	// Skip the file of panic, or "goroutine 7 [running]:" in a stack without panic.
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
