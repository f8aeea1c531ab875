package saga_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
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
		err = skald.Reject(errors.New("out of stock")) // the saga turns back; any other error is retried
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
	charge := saga.Call("charge", call.NewEndpoint(bank.provider, bank.Charge).WithLookup(bank.Find),
		func(r saga.Run[Order]) int { return r.In.Cents },
		saga.UndoCall(call.NewEndpoint(bank.provider, bank.Refund),
			func(_ saga.Run[Order], paid Receipt) string { return paid.Number }))
	parcel := func(r saga.Run[Order]) Parcel { return Parcel{r.Key, hold.Output(r).SKU} }
	ship := saga.Command("ship", ShipParcel, parcel, saga.Reply(Shipped), saga.Pivot())
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

type gift struct {
	ID    string
	Day   time.Time
	Paper string
}

// Approved is declared once, for the saga and for those who send it.
var Approved = saga.Signal[string]{Name: "approved"}

// ExampleSignal_Send has steps that wait: for a signal, for a time, and for another saga.
func ExampleSignal_Send() {
	key := func(g gift) string { return g.ID }
	wrap := func(_ context.Context, tx *memstore.Tx, r saga.Run[gift]) error {
		return tx.Put(r.Key+" wrapped", r.In.Paper)
	}
	unwrap := func(_ context.Context, tx *memstore.Tx, r saga.Run[gift]) error {
		return tx.Delete(r.Key + " wrapped")
	}
	send := func(_ context.Context, tx *memstore.Tx, r saga.Run[gift]) error {
		return tx.Put(r.Key+" sent", "yes")
	}
	wrapping := saga.New("wrapping", &saga.Options[gift]{Key: key}, saga.Exec("wrap", wrap, unwrap))

	approve := saga.Wait[gift]("approve", Approved, saga.Timeout(24*time.Hour)) // then the saga turns back
	day := saga.Until("day", func(r saga.Run[gift]) time.Time { return r.In.Day })
	inside := saga.Child("wrap", wrapping, func(r saga.Run[gift]) gift {
		return gift{ID: r.Key, Paper: approve.Output(r)} // the data of the signal
	})
	gifts := saga.New("gift", &saga.Options[gift]{Key: key}, approve, day, inside,
		saga.Exec("send", send, nil, saga.Pivot()))

	ctx, stop := context.WithCancel(context.Background())
	db := memstore.New(nil)
	engine, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, gifts)
	if err != nil {
		fmt.Println(err)
	}
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	sagas := saga.Bind(engine, gifts)
	tx := db.BeginTx()
	_, err = sagas.Start(ctx, tx, gift{ID: "g-1", Day: time.Now()})
	fmt.Println(errors.Join(err, tx.Commit()))

	_, err = Approved.Send(ctx, sagas, "g-1", "red") // for example in a handler
	end, lost := sagas.Await(ctx, "g-1")
	stop()
	fmt.Println(end.Done, db.User(), errors.Join(err, lost, <-done))
	// Output:
	// <nil>
	// true map[g-1 sent:yes g-1 wrapped:red] <nil>
}

// ExampleBind starts, awaits and reads the sagas of one definition. Its steps have no output.
func ExampleBind() {
	pack := func(_ context.Context, tx *memstore.Tx, r saga.Run[Order]) error {
		return tx.Put("packed "+r.Key, r.In.SKU)
	}
	unpack := func(_ context.Context, tx *memstore.Tx, r saga.Run[Order]) error {
		return tx.Delete("packed " + r.Key)
	}
	ship := func(context.Context, *memstore.Tx, saga.Run[Order]) error {
		return skald.Reject(errors.New("no such address")) // so the saga turns back
	}
	definition := saga.New("order", &saga.Options[Order]{Key: func(o Order) string { return o.ID }},
		saga.Exec("pack", pack, unpack), saga.Exec("ship", ship, nil, saga.Pivot()))

	db := memstore.New(nil)
	engine, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, definition)
	if err != nil {
		fmt.Println(err)
	}
	orders := saga.Bind(engine, definition)
	ctx, stop := context.WithCancel(context.Background())
	tx := db.BeginTx() // your transaction: the saga starts if, and only if, it commits
	_, err = orders.Start(ctx, tx, Order{ID: "o-1", SKU: "tea"})
	fmt.Println(errors.Join(err, tx.Commit()))
	status, err := orders.Status(ctx, "o-1")
	fmt.Println(status.State, err)

	done := make(chan error)
	go func() { done <- engine.Run(ctx) }() // in a program: skald.RunUntilSignal
	_, err = orders.Await(ctx, "o-1")
	status, failed := orders.Status(ctx, "o-1")
	fmt.Println(status.State, status.Step, status.Reason, db.User(), errors.Join(err, failed))
	stop()
	fmt.Println(<-done)
	// Output:
	// <nil>
	// running <nil>
	// compensated ship rejected: no such address map[] <nil>
	// <nil>
}

type transfer struct {
	ID, From, To string
	Cents        int
}

// ExampleLock runs two sagas on one account one after the other. The second one reads the result of the
// first.
func ExampleLock() {
	key := func(t transfer) string { return t.ID }
	account := saga.Lock("account", func(r saga.Run[transfer]) []store.Lock {
		return []store.Lock{{Space: "account", Key: r.In.From}, {Space: "account", Key: r.In.To}}
	})
	read := saga.Do("read", func(_ context.Context, tx *memstore.Tx, r saga.Run[transfer]) (int, error) {
		balance, _ := tx.Get(r.In.From)
		return strconv.Atoi(balance)
	}, nil, saga.NoEffect())
	pay := saga.Do("pay", func(_ context.Context, tx *memstore.Tx, r saga.Run[transfer]) (string, error) {
		// no other saga wrote since it was read
		return "", tx.Put(r.In.From, strconv.Itoa(read.Output(r)-r.In.Cents))
	}, nil, saga.Pivot())
	transfers := saga.New("transfer", &saga.Options[transfer]{Key: key}, account, read, pay)

	ctx, stop := context.WithCancel(context.Background())
	db := memstore.New(nil)
	quiet := saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}
	engine, err := saga.NewEngine(db, &quiet, transfers)
	if err != nil {
		fmt.Println(err)
	}
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	tx := db.BeginTx()
	err = tx.Put("tea", "100")
	sagas := saga.Bind(engine, transfers)
	for _, id := range []string{"t-1", "t-2"} {
		_, failed := sagas.Start(ctx, tx, transfer{id, "tea", "honey", 30})
		err = errors.Join(err, failed)
	}
	fmt.Println(errors.Join(err, tx.Commit()))
	_, one := sagas.Await(ctx, "t-1")
	_, two := sagas.Await(ctx, "t-2")

	tx = db.BeginTx()
	// for example in a handler
	holders, err := saga.Held(ctx, engine, tx, store.Lock{Space: "account", Key: "tea"})
	_ = tx.Rollback()
	stop()
	fmt.Println(db.User(), holders, errors.Join(one, two, err, <-done))
	// Output:
	// <nil>
	// map[tea:40] [] <nil>
}

// TestPageShowsCodeThatCompiles: each line of Go in docs/sagas.md is in a file that compiles.
func TestPageShowsCodeThatCompiles(t *testing.T) {
	var code strings.Builder
	for _, name := range []string{"example_test.go", "read_test.go", "../sagatest/check_test.go",
		"../sagatest/checkexample_test.go", "../examples/command/main.go", "../examples/command/orders.go",
		"../examples/command/warehouse.go"} {
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
	for _, name := range []string{"sagas.md"} {
		page, err := os.ReadFile("../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		in, shown := false, 0
		for line := range strings.Lines(string(page)) {
			line = strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(line, "```"):
				in = line == "```go"
			case in && line != "" && !strings.HasPrefix(line, "//"):
				if shown++; !lines[line] {
					t.Errorf("docs/%s shows a line that is in no file: %s", name, line)
				}
			}
		}
		if shown < 30 {
			t.Errorf("docs/%s shows only %d lines", name, shown)
		}
	}
}
