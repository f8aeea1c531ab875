package page

import "strings"

// A Who is a user and the user's rights.
type Who struct {
	Name string
	May  Right
}

// A Right is a set of rights.
type Right uint8

// Rights. None includes another, and every request needs GuardView.
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
