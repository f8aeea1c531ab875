package inbox

import (
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// importedSome returns n messages, followed by an error or by none.
func importedSome(n int, err error) iter.Seq2[Finished, error] {
	return func(yield func(Finished, error) bool) {
		for i := range n {
			if !yield(Finished{Identity: store.Identity{Source: "/old", ID: fmt.Sprint(i)}}, nil) {
				return
			}
		}
		if err != nil {
			yield(Finished{}, err)
		}
	}
}

// A second import marks new messages and counts the others, across transactions. An error ends the import,
// and earlier transactions remain.
func TestImportAgain(t *testing.T) {
	db := memstore.New(nil)
	for _, c := range []struct {
		n    int
		err  error
		want Imported
	}{
		{mostImported + 1, errors.New("no more"), Imported{New: mostImported}},
		{mostImported + 1, nil, Imported{New: 1, Existing: mostImported}},
		{mostImported + 3, nil, Imported{New: 2, Existing: mostImported + 1}},
	} {
		got, err := Import(t.Context(), db, "stock", "ann", "moves here", importedSome(c.n, c.err))
		if got != c.want || (err != nil) != (c.err != nil) {
			t.Errorf("%d messages: %+v, %v; want %+v", c.n, got, err, c.want)
		}
	}
	if marks := db.Marks(); len(marks) != mostImported+3 {
		t.Errorf("%d marks", len(marks))
	}
}

// Import refuses a mark without a consumer or without an id.
func TestImportWithoutAConsumerOrID(t *testing.T) {
	if _, err := Import(t.Context(), memstore.New(nil), "", "ann", "why", importedSome(1, nil)); err == nil {
		t.Error("a mark of no consumer")
	}
	none := func(yield func(Finished, error) bool) { yield(Finished{}, nil) }
	if _, err := Import(t.Context(), memstore.New(nil), "stock", "ann", "why", none); err == nil {
		t.Error("a mark of no message")
	}
}
