package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store/memstore"
)

// ExampleOutbox_Write_repeat repeats the whole transaction if a commit has no answer. It chooses the ID
// before the loop.
func ExampleOutbox_Write_repeat() {
	ctx := context.Background()
	db := memstore.New(nil)
	out := outbox.New[*memstore.Tx](db, nil)
	placed := skald.Event[order]{Topic: "orders", Type: "order.placed"}.New("7", order{"7", 5})
	placed.ID = uuid7.New(time.Now())

	for attempt := range 3 {
		tx := db.BeginTx()
		err := errors.Join(tx.Put("order/7", "placed"), out.Write(ctx, tx, placed))
		if err == nil {
			err = tx.Commit()
		}
		if attempt == 0 { // the answer to the first COMMIT is lost
			err = errors.New("connection reset by peer")
		}
		if err == nil || errors.Is(err, outbox.ErrOtherMessage) {
			break
		}
	}
	fmt.Println(len(db.Rows()), "message")
	// Output: 1 message
}
