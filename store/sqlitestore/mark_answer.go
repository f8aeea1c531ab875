package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// storeAnswer stores the answer of a handler with the mark m. It fails if the mark does not exist.
func storeAnswer(ctx context.Context, x *sqlexec.Session, m *store.Mark) error {
	if !storable(m.Outcome) {
		return fmt.Errorf("answer %s: outcome %d cannot be stored", m.ID, m.Outcome)
	}
	reason := sql.NullString{String: column.ClipReason(m.Reason), Valid: m.Outcome == store.Rejected}
	var result []byte
	if m.Result != "" {
		result = []byte(m.Result)
	}
	n, err := x.Count(ctx, "AnswerMark", m.Consumer, m.Source, m.ID, int64(m.Outcome), reason, m.Code, result,
		sql.NullString{String: m.Emitted, Valid: m.Emitted != ""},
		sql.NullString{String: m.Headers, Valid: m.Headers != ""})
	if err == nil && n != 1 {
		err = store.ErrLost
	}
	if err != nil {
		return fmt.Errorf("answer %s: %w", m.ID, err)
	}
	return nil
}
