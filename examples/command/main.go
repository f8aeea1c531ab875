// Command is a saga over two services. Orders (orders.go) has the process; the warehouse (warehouse.go) takes
// commands from it, and knows of no saga. Each has a database of its own. Here both run in this process, with
// a broker in it; as services of their own they are the same two files, with the messages below.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/store/sqlitestore"
)

// What the two say to each other.
type (
	Pick struct {
		Saga, SKU string
		Quantity  int
	}
	Refusal struct{ Why string }
)

var (
	ReserveStock = skald.Event[Pick]{Topic: "warehouse", Type: "reserve"}
	ReleaseStock = skald.Event[Pick]{Topic: "warehouse", Type: "release"}

	StockReserved = skald.Event[Pick]{Topic: "stock", Type: "reserved"}
	StockShort    = skald.Event[Refusal]{Topic: "stock", Type: "short"}
	StockReleased = skald.Event[Pick]{Topic: "stock", Type: "released"}
)

func main() {
	dir, err := os.MkdirTemp("", "skald-command")
	if err == nil {
		err = run(context.Background(), dir, os.Stdout)
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir string, out io.Writer) (err error) {
	bus := membroker.New(nil)
	if err := bus.MakeTopics(ctx, 4, "warehouse", "stock"); err != nil {
		return err
	}
	mine, err := open(ctx, filepath.Join(dir, "orders.db"), ordersTables)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mine.Close()) }()
	theirs, err := open(ctx, filepath.Join(dir, "warehouse.db"), warehouseTables)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, theirs.Close()) }()

	orders, err := newOrders(mine, bus)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		err := skald.Run(ctx, append(orders.runners, warehouse(theirs, bus)...)...)
		stop() // nobody is to wait for what does not run any more
		done <- err
	}()
	defer func() {
		stop()
		err = errors.Join(err, <-done)
	}()
	for _, o := range []Order{
		{ID: "o-1", SKU: "tea", Quantity: 2, Cents: 500},  // done
		{ID: "o-2", SKU: "tea", Quantity: 99, Cents: 500}, // the warehouse refuses
		{ID: "o-3", SKU: "tea", Quantity: 3, Cents: 9999}, // reserved, and then not paid
	} {
		if err := orders.place(ctx, o); err != nil {
			return err
		}
		end, err := orders.sagas.Await(ctx, o.ID)
		if err != nil {
			return err
		}
		how := "done"
		if !end.Done {
			how = fmt.Sprintf("undone, because of %s: %s", end.Step, end.Reason)
		}
		fmt.Fprintf(out, "%s: %s\n", o.ID, how)
	}
	return nil
}

func open(ctx context.Context, path, tables string) (*sql.DB, error) {
	db, err := sqlitestore.Open(path)
	if err != nil {
		return nil, err
	}
	_, err = sqlitestore.Migrate(ctx, db, nil)
	if err == nil {
		_, err = db.ExecContext(ctx, tables)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
