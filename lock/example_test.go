package lock_test

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/lock"
	"github.com/skald-go/skald/store/memstore"
)

// ExampleOnce takes a token before long work. The result is stored only if no other commit had the account in
// between.
func ExampleOnce() {
	ctx, db := context.Background(), memstore.New(nil)
	account := lock.Entity{Space: "account", Key: "a-1"}
	held, err := lock.Take(ctx, db, account)
	fmt.Println(err)

	work := lock.Work{Scope: "report", Key: "r-1", Held: held}
	store := func(_ context.Context, tx *memstore.Tx, _ lock.Tokens) (bool, error) {
		return true, tx.Put("report r-1", "done")
	}
	_, _, err = lock.Once(ctx, db, work, store)
	fmt.Println(db.User(), err)

	work.Key = "r-2" // with the same token, after the commit of r-1
	_, _, err = lock.Once(ctx, db, work, store)
	fmt.Println(err != nil)
	// Output:
	// <nil>
	// map[report r-1:done] <nil>
	// true
}
