// Lock prints the schemas of the events, for skald schema check: go run ./examples/schema/lock > schemas.json
package main

import (
	"log"
	"os"

	"github.com/skald-go/skald/examples/schema/payment"
	"github.com/skald-go/skald/schema"
)

func main() {
	if err := schema.WriteLock(os.Stdout, payment.Events(&schema.Registry{})); err != nil {
		log.Fatal(err)
	}
}
