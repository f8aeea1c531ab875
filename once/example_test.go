package once_test

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store/memstore"
)

// A job that runs twice does its work once. The second run returns the stored result.
func ExampleDo() {
	db := memstore.New(nil)
	for range 2 {
		total, replayed, err := once.Do(context.Background(), db, "invoices", "2026-11", "acme",
			func(_ context.Context, tx *memstore.Tx) (int, error) {
				return 1250, tx.Put("invoice 2026-11", "acme owes 1250")
			})
		fmt.Println(total, replayed, err)
	}
	// Output:
	// 1250 false <nil>
	// 1250 true <nil>
}
