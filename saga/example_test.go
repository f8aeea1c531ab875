package saga_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
)

type (
	Order struct {
		ID, SKU         string
		Quantity, Cents int
	}
	Hold struct {
		SKU      string
		Quantity int
	}
	Receipt struct{ Number string }
	Parcel  struct{ OrderID, SKU string }
	Track   struct{ Number string }
)

type gateway struct{ provider *call.Provider }

func (gateway) Charge(context.Context, int, string) (Receipt, error) { return Receipt{}, nil }
func (gateway) Refund(context.Context, string, string) (bool, error) { return true, nil }
func (gateway) Find(context.Context, int, string) (Receipt, bool, error) {
	return Receipt{}, false, nil
}

var ShipParcel = skald.Event[Parcel]{Topic: "shipping", Type: "ship"}

var Shipped = skald.Event[Track]{Topic: "shipped", Type: "parcel.shipped"}

func reserveTea(ctx context.Context, tx pgx.Tx, r saga.Run[Order]) (Hold, error) {
	tag, err := tx.Exec(ctx, `UPDATE stock SET free = free - $1 WHERE sku = $2 AND free >= $1`,
		r.In.Quantity, r.In.SKU)
	if err == nil && tag.RowsAffected() == 0 {
		err = skald.Reject(errors.New("out of stock")) // the saga turns back; any other error is tried again
	}
	return Hold{r.In.SKU, r.In.Quantity}, err
}

func releaseTea(ctx context.Context, tx pgx.Tx, _ saga.Run[Order], h Hold) error {
	// h is what reserveTea returned
	_, err := tx.Exec(ctx, `UPDATE stock SET free = free + $1 WHERE sku = $2`, h.Quantity, h.SKU)
	return err
}

func define(bank gateway) *saga.Definition[Order] {
	hold := saga.Do("hold", reserveTea, releaseTea)
	charge := saga.Call("charge",
		saga.Request[pgx.Tx, Order, int, Receipt]{At: bank.provider, Do: bank.Charge, LookUp: bank.Find,
			Intent: func(_ context.Context, _ pgx.Tx, r saga.Run[Order]) (int, error) {
				return r.In.Cents, nil
			}},
		saga.Refund[pgx.Tx, Order, Receipt, string, bool]{At: bank.provider, Do: bank.Refund,
			Intent: func(_ context.Context, _ pgx.Tx, _ saga.Run[Order], paid Receipt) (string, error) {
				return paid.Number, nil
			}})
	parcel := func(r saga.Run[Order]) Parcel { return Parcel{r.Key, hold.Of(r).SKU} }
	ship := saga.Command("ship", ShipParcel, parcel, saga.Reply(Shipped), nil, saga.Pivot())
	return saga.New("order", &saga.Options[Order]{
		Key:      func(o Order) string { return o.ID },
		Deadline: 10 * time.Minute,
	}, hold, charge, ship)
}

func ExampleNew() {
	orders := define(gateway{call.NewProvider("bank", nil)})
	fmt.Println(orders.Faults())
	fmt.Print(orders.Text())
	// Output:
	// <nil>
	// saga order, deadline 10m0s
	//   1  hold    do, undo
	//   2  charge  call, undo
	//   3  ship    command, pivot
}

// What docs/sagas.md shows compiles: each line of its Go blocks stands in this file or in one beside it.
func TestPageShowsCodeThatCompiles(t *testing.T) {
	page, err := os.ReadFile("../docs/sagas.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, name := range []string{"example_test.go", "read_test.go", "../sagatest/check_test.go",
		"../sagatest/checkexample_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	lines := map[string]bool{}
	for line := range strings.Lines(code.String()) {
		lines[strings.TrimSpace(line)] = true
	}
	in, shown := false, 0
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			in = line == "```go"
		case in && line != "" && !strings.HasPrefix(line, "//"):
			if shown++; !lines[line] {
				t.Errorf("docs/sagas.md shows a line that stands in no file: %s", line)
			}
		}
	}
	if shown < 30 {
		t.Errorf("it shows only %d lines", shown)
	}
}
