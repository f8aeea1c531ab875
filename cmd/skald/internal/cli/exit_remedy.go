package cli

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald/store"
)

// Remedy is what to do about what a server said, or did not say. Our own errors tell it themselves.
func Remedy(err error) string {
	var own *store.RightError
	var said *pgconn.PgError
	switch code := Code(err); {
	case code == unreachable:
		return ": is the server running, and is this its address?"
	case errors.As(err, &own) || !errors.As(err, &said):
		return ""
	case strings.Contains(said.Message, "unsupported startup parameter"):
		return ": leave it out of the URL, or name it in ignore_startup_parameters of the pooler"
	case said.Code == "42501":
		return ": give the user this right, or use another user"
	case code == exitRight:
		return ": check the user's name, its password (PGPASSWORD, PGPASSFILE, ~/.pgpass) and its rights"
	case code == exitNone:
		return ": make it with createdb, or give another --store"
	}
	return ""
}
