package main

import (
	"fmt"
	"os"
)

func Example() {
	if err := run(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// a payment:                     201 replayed=false, charged 1 times
	// the client saw no answer:      201 replayed=true, charged 1 times
	// another payload, the same key: 422 replayed=false, charged 1 times
	// another tenant, the same key:  201 replayed=false, charged 2 times
	// too much:                      402 replayed=false, charged 2 times
	// too much, again:               402 replayed=true, charged 2 times
	// no key:                        400 replayed=false, charged 2 times
}
