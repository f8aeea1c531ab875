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
	// delivered:                   charged 1 time, 0 repeats, 0 of these known to Redis
	// again:                       charged 1 time, 1 repeats, 1 of these known to Redis
	// Redis is flushed, and again: charged 1 time, 2 repeats, 1 of these known to Redis
	// again:                       charged 1 time, 3 repeats, 2 of these known to Redis
	// Redis is gone, and again:    charged 1 time, 4 repeats, 2 of these known to Redis
}
