package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

func insert(ctx context.Context, x *sqlexec.Session, rows []skald.Message) error {
	for i := range rows {
		if err := complete.Limits(&rows[i]); err != nil {
			return err
		}
		args, err := rowArgs(&rows[i], column.Bucket(&rows[i]))
		if err != nil {
			return err
		}
		if _, err := x.Exec(ctx, "InsertRow", args[1:]...); err != nil {
			return fmt.Errorf("insert row: %w", err)
		}
	}
	return nil
}

// rowArgs returns the values of the columns of m, in this order: source, id, topic, key, key_bytes, type,
// data, data_bytes, content_type, schema, subject, correlation_id, causation_id, traceparent, headers, time,
// bucket.
func rowArgs(m *skald.Message, bucket int) ([]any, error) {
	headers, err := sqlexec.Headers(m.Headers)
	if err != nil {
		return nil, err
	}
	keyText, keyBytes := sqlexec.Split(m.Key, sqlexec.CanBeText(m.Key))
	data, dataBytes := sqlexec.Split(m.Data, isText(m.ContentType) && sqlexec.CanBeText(m.Data))
	return []any{m.Source, m.ID, m.Topic, keyText, keyBytes, m.Type, data, dataBytes, m.ContentType,
		sqlexec.Text(m.Schema),
		sqlexec.Text(m.Subject), sqlexec.Text(m.CorrelationID), sqlexec.Text(m.CausationID),
		sqlexec.Text(m.TraceParent), headers,
		m.Time.UTC().Format(sqlexec.Layout), bucket}, nil
}

// isText reports whether the outbox stores a payload of that content type as text, which SQL can read.
func isText(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "application/json" || strings.HasSuffix(kind, "+json") || strings.HasPrefix(kind, "text/")
}

// scanRow reads a row of the outbox, and the columns after it into others. The columns are seq, bucket, id,
// source, topic, key, key_bytes, type, data, data_bytes, content_type, schema, subject, correlation_id,
// causation_id, traceparent, headers, time, the size, and a hash if the data is too large.
func scanRow(rows *sql.Rows, others ...any) (r store.Row, err error) {
	var (
		in                                                          sql.NullInt64
		key, data, headers, schema, subject, correlation, cause, tp sql.NullString
		keyBytes, dataBytes                                         sql.Null[[]byte]
		at                                                          string
		size                                                        int64
		hash                                                        sql.NullString
	)
	m := &r.Message
	if err := rows.Scan(append([]any{&r.Seq, &in, &m.ID, &m.Source, &m.Topic, &key, &keyBytes, &m.Type, &data,
		&dataBytes, &m.ContentType,
		&schema, &subject, &correlation, &cause, &tp, &headers, &at, &size, &hash},
		others...)...); err != nil {
		return r, err
	}
	if hash.Valid {
		r.Large = &store.Large{Bytes: size, SHA256: hash.String}
	}
	m.Key, m.Data = sqlexec.Join(key, keyBytes), sqlexec.Join(data, dataBytes)
	m.Schema, m.Subject, m.CorrelationID, m.CausationID, m.TraceParent = schema.String, subject.String,
		correlation.String, cause.String, tp.String
	if m.Headers,
		err = sqlexec.ReadHeaders(headers); err != nil { // not an error of scanRow: the relay defers the row
		r.Fault = sqlexec.Fault(err)
	}
	var is bool
	if m.Time, is = sqlexec.ParseTime(at); !is {
		r.Fault = sqlexec.Fault(fmt.Errorf("time: %.64q is not valid", at))
	}
	if r.Bucket = int(in.Int64); !in.Valid {
		r.Bucket = column.Bucket(m)
	}
	return r, nil
}
