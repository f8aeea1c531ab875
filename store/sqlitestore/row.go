package sqlitestore

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/bucket"
	"github.com/skald-go/skald/store"
)

// timeLayout sorts as text, and has what PostgreSQL keeps.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// rowArgs are the columns of m: source, id, topic, key, key_bytes, type, data, data_bytes, content_type,
// schema, subject, correlation_id, causation_id, traceparent, headers, time, bucket.
func rowArgs(m *skald.Message, bucket int) ([]any, error) {
	headers, err := packHeaders(m.Headers)
	if err != nil {
		return nil, err
	}
	keyText, keyBytes := split(m.Key, canBeText(m.Key))
	data, dataBytes := split(m.Data, isText(m.ContentType) && canBeText(m.Data))
	return []any{m.Source, m.ID, m.Topic, keyText, keyBytes, m.Type, data, dataBytes, m.ContentType,
		orNull(m.Schema),
		orNull(m.Subject), orNull(m.CorrelationID), orNull(m.CausationID), orNull(m.TraceParent), headers,
		m.Time.UTC().Format(timeLayout), bucket}, nil
}

// split puts b into the one column or the other; nil is NULL in both.
func split(b []byte, text bool) (any, any) {
	switch {
	case b == nil:
		return nil, nil
	case text:
		return string(b), nil
	}
	return nil, b
}

// canBeText: SQL reads text up to the first NUL.
func canBeText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// isText tells which content types go into the data column, where SQL can read them.
func isText(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "application/json" || strings.HasSuffix(kind, "+json") || strings.HasPrefix(kind, "text/")
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func packHeaders(hs []skald.Header) (any, error) {
	if len(hs) == 0 {
		return nil, nil
	}
	pairs := make([][2]string, len(hs))
	for i, h := range hs {
		pairs[i] = [2]string{h.Name, base64.StdEncoding.EncodeToString(h.Value)}
	}
	text, err := json.Marshal(pairs)
	if err != nil {
		return nil, fmt.Errorf("pack headers: %w", err)
	}
	return string(text), nil
}

func unpackHeaders(text sql.NullString) ([]skald.Header, error) {
	if !text.Valid {
		return nil, nil
	}
	var pairs [][2]string
	if err := json.Unmarshal([]byte(text.String), &pairs); err != nil {
		return nil, fmt.Errorf("headers: %w", err)
	}
	hs := make([]skald.Header, len(pairs))
	for i, p := range pairs {
		value, err := base64.StdEncoding.DecodeString(p[1])
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", p[0], err)
		}
		hs[i] = skald.Header{Name: p[0], Value: value}
	}
	return hs, nil
}

// scanRow reads seq, bucket, id, source, topic, key, key_bytes, type, data, data_bytes, content_type, schema,
// subject, correlation_id, causation_id, traceparent, headers, time, how large it is, a hash if that is too
// large, and then more.
func scanRow(rows *sql.Rows, more ...any) (r store.Row, err error) {
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
		&schema, &subject, &correlation, &cause, &tp, &headers, &at, &size, &hash}, more...)...); err != nil {
		return r, err
	}
	if hash.Valid {
		r.Large = &store.Large{Bytes: size, SHA256: hash.String}
	}
	m.Key, m.Data = join(key, keyBytes), join(data, dataBytes)
	m.Schema, m.Subject, m.CorrelationID, m.CausationID, m.TraceParent = schema.String, subject.String,
		correlation.String, cause.String, tp.String
	if m.Headers, err = unpackHeaders(headers); err != nil { // it is the row's own fault: others are read
		r.Fault = fault(err)
	}
	m.Time = readTime(at)
	if r.Bucket = int(in.Int64); !in.Valid {
		r.Bucket = bucket.Of(m)
	}
	return r, nil
}

// fault says of a row or message, which is deferred for it, why it cannot be read.
func fault(err error) string {
	return clip(strings.ToValidUTF8("it cannot be read: "+err.Error(), "\ufffd"))
}

func join(text sql.NullString, raw sql.Null[[]byte]) []byte {
	switch {
	case text.Valid:
		return []byte(text.String)
	case raw.Valid && raw.V == nil:
		return []byte{}
	}
	return raw.V
}

// readTime reads what SQLite calls a time; other text, which order never depends on, is the zero time.
func readTime(s string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00",
		"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}
