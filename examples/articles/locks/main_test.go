package main

import (
	"context"
	"fmt"
	"os"
)

func Example() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// reserved, replayed: false
	// reserved, replayed: true
	// shipping was overtaken: true; the order is cancelled
}
