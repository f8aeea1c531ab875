package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald/store"
)

// OneLine returns the text of err without line breaks. An error of pgx has a line for each attempt to
// connect, and several attempts often fail in the same way.
func OneLine(err error) string {
	head, rest, _ := strings.Cut(err.Error(), "\n\t")
	var attempts []string
	for line := range strings.SplitSeq(rest, "\n\t") {
		if line != "" && !slices.Contains(attempts, line) {
			attempts = append(attempts, line)
		}
	}
	return strings.TrimSpace(head + " " + strings.Join(attempts, "; "))
}

// Remedy returns the remedy for an error of a server, or for an unreachable server. Errors of Skald contain
// their remedy.
func Remedy(err error) string {
	var own *store.RightError
	var reply *pgconn.PgError
	switch code := Code(err); {
	case code == unreachable:
		return ": check that the server runs at this address"
	case errors.As(err, &own) || !errors.As(err, &reply):
		return ""
	case strings.Contains(reply.Message, "unsupported startup parameter"):
		return ": remove it from the URL, or add it to ignore_startup_parameters of the pooler"
	case reply.Code == "42501":
		return ": give the user this right, or use another user"
	case code == exitRight:
		return ": check the user's name, its password (PGPASSWORD, PGPASSFILE, ~/.pgpass) and its rights"
	case code == exitNone:
		return ": create it with createdb, or give another --store"
	}
	return ""
}
