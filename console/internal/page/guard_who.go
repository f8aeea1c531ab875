package page

import "strings"

// A Who is somebody who asks, and what they may.
type Who struct {
	Name string
	May  Right
}

// A Right is what somebody may do.
type Right uint8

// Rights. None includes another one, and without View nothing is answered.
const (
	GuardView Right = 1 << iota
	Act
	Payloads
)

func (r Right) String() string {
	var out []string
	for _, w := range []struct {
		is   Right
		word string
	}{{GuardView, "view"}, {Act, "act"}, {Payloads, "payloads"}} {
		if r&w.is != 0 {
			out = append(out, w.word)
		}
	}
	return strings.Join(out, ", ")
}
