package console

import "strings"

// A visitor is somebody who asks, and what they may.
type visitor struct {
	Name string
	May  right
}

// A right is what somebody may do.
type right uint8

// Rights. None includes another one, and without View nothing is answered.
const (
	view_ right = 1 << iota
	act_
	payloads_
)

func (r right) String() string {
	var out []string
	for _, w := range []struct {
		is   right
		word string
	}{{view_, "view"}, {act_, "act"}, {payloads_, "payloads"}} {
		if r&w.is != 0 {
			out = append(out, w.word)
		}
	}
	return strings.Join(out, ", ")
}
