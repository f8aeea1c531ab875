package pgstore

import (
	"slices"
	"strings"
)

// lasting reports whether a statement may leave state behind, such as a setting, a savepoint or a temporary
// object.
type lasting struct {
	inTransaction bool // later functions in the same transaction see the state
	inSession     bool // later transactions of the session see the state
}

// stateLeftBy reads the text of one or more statements. It returns the state that the statements may leave
// in the transaction and in the session. It does not detect state that functions of the database leave.
func stateLeftBy(sql string) (l lasting) {
	upper := strings.ToUpper(sql)
	l.inTransaction = strings.Contains(upper, "SAVEPOINT")
	if strings.Contains(upper, "SET_CONFIG") {
		l.inTransaction = true
		l.inSession = !strings.Contains(upper, "TRUE") || strings.Contains(upper, "FALSE")
	}
	if strings.Contains(upper, "PG_ADVISORY_LOCK") || strings.Contains(upper, "PG_TRY_ADVISORY_LOCK") {
		l = lasting{true, true} // the lock outlives the transaction
	}
	for part := range strings.SplitSeq(upper, ";") {
		part = withoutComments(part)
		one := lasting{}
		switch firstWord(part) {
		case "SET":
			words := strings.Fields(part)
			one.inTransaction = true
			one.inSession = len(words) > 1 && !slices.Contains([]string{"LOCAL", "TRANSACTION", "CONSTRAINTS"}, words[1])
		case "RESET", "DISCARD", "LISTEN", "UNLISTEN", "PREPARE", "DEALLOCATE", "LOAD", "DO", "CALL":
			one = lasting{true, true}
		case "DECLARE":
			one = lasting{true, strings.Contains(part, "HOLD")}
		default:
			if namesTemporary(part) {
				one = lasting{true, !strings.Contains(part, "ON COMMIT DROP")}
			}
		}
		l.inTransaction = l.inTransaction || one.inTransaction
		l.inSession = l.inSession || one.inSession
	}
	return l
}

// namesTemporary reports whether a statement creates a temporary object.
func namesTemporary(upper string) bool {
	if !strings.Contains(upper, "TEMP") {
		return false
	}
	if firstWord(upper) == "CREATE" && strings.Contains(upper, "PG_TEMP.") {
		return true
	}
	words := strings.Fields(upper)
	for i, w := range words {
		if i > 0 && (w == "TEMP" || w == "TEMPORARY") &&
			slices.Contains([]string{"CREATE", "LOCAL", "GLOBAL", "INTO", "REPLACE"}, words[i-1]) {
			return true
		}
	}
	return false
}

// withoutComments removes the comments before a statement.
func withoutComments(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n(")
		end := ""
		switch {
		case strings.HasPrefix(sql, "--"):
			end = "\n"
		case strings.HasPrefix(sql, "/*"):
			end = "*/"
		default:
			return sql
		}
		_, rest, found := strings.Cut(sql, end)
		if !found {
			return ""
		}
		sql = rest
	}
}
