package pgstore

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// TestInlined checks that literals come back unchanged, for any meaning of a backslash at the server.
func TestInlined(t *testing.T) {
	t.Parallel()
	b := bare(t)
	ctx := context.Background()
	nasty := []string{``, `'`, `''`, `\`, `\'`, `'; DROP TABLE x; --`, `$1`, `"{},NULL`, "é\n\t\r€𝄞", `NULL`,
		`\x00`, `E'\''`}
	at := time.Date(2026, 11, 21, 9, 8, 7, 123456000, time.FixedZone("", 3600))
	n, word := int16(-5), "x"
	for _, conforming := range []string{"on", "off"} {
		conn, err := b.pool.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(ctx, "SET standard_conforming_strings = "+conforming); err != nil {
			t.Fatal(err)
		}
		text, err := sqlexec.Inlined(`SELECT $1::text[], $2::bytea, $3::timestamptz, -$4::integer, $5::text, $6::text, $7::bytea[], $8::boolean, '$9' || "$10", $5::text IS NULL, $11::bigint[]
			FROM (VALUES ('q')) AS v("$10")`,
			[]any{nasty, []byte{0, '\'', '\\', 255}, at, &n, (*string)(nil), &word, [][]byte{{0}, nil, {}},
				true, nil, nil, []*int64{nil}})
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		var blob []byte
		var when time.Time
		var minus int
		var none *string
		var some, nine string
		var blobs [][]byte
		var yes, null bool
		var numbers []*int64
		err = conn.QueryRow(ctx, text, pgx.QueryExecModeExec).Scan(&texts, &blob, &when, &minus, &none, &some,
			&blobs, &yes, &nine, &null, &numbers)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !slices.Equal(texts, nasty) || string(blob) != "\x00'\\\xff" || !when.Equal(at) || minus != 5 ||
			none != nil || some != "x" || !yes || nine != "$9q" || !null ||
			len(blobs) != 3 || string(blobs[0]) != "\x00" || blobs[1] != nil || blobs[2] == nil ||
			len(numbers) != 1 || numbers[0] != nil {
			t.Errorf("%s: %q %q %v %d %v %q %q %t %q %t %v", conforming, texts, blob, when, minus, none, some,
				blobs, yes, nine, null, numbers)
		}
		_ = conn.Conn().Close(ctx)
		conn.Release()
	}
	for _, bad := range []any{"a\x00b", "\xff", []string{"a\x00"}, 1.5} {
		if text, err := sqlexec.Inlined("SELECT $1", []any{bad}); err == nil {
			t.Errorf("%q became %q", bad, text)
		}
	}
	if text, err := sqlexec.Inlined("SELECT $2", []any{1}); err == nil {
		t.Errorf("a second argument of one: %q", text)
	}
}
