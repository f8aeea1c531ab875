package page

import "strings"

// Who is a user with rights.
type Who struct {
	Name string
	May  Right
}

// Right is a set of rights.
type Right uint8

// Values of Right. No right includes another right. Every request needs GuardView.
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
