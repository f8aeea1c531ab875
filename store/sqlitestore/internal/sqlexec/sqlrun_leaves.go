package sqlexec

import "strings"

// mayLeaveState reports whether the text q may leave state on its connection: a setting (PRAGMA), a
// temporary object, or an attached file. The table-valued functions pragma_… only read. mayLeaveState also
// counts words in strings and comments. Such a mistake only costs a new connection.
func mayLeaveState(q string) bool {
	creates, temporary := false, false
	for i := 0; i < len(q); {
		from := i
		for i < len(q) && inName(q[i]) {
			i++
		}
		switch word := q[from:i]; len(word) {
		case 0:
			i++
		case len("temp"):
			temporary = temporary || strings.EqualFold(word, "temp")
		case len("temporary"):
			temporary = temporary || strings.EqualFold(word, "temporary")
		case len("pragma"): // also the length of attach and detach
			if strings.EqualFold(word, "pragma") || strings.EqualFold(word, "attach") ||
				strings.EqualFold(word, "detach") {
				return true
			}
			creates = creates || strings.EqualFold(word, "create")
		}
	}
	return creates && temporary
}

func inName(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}
