package connect

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// Yes wants a yes from whoever sits at the terminal. Where nobody does, or it is another word, the error
// says what to do.
func Yes(ctx context.Context, errs io.Writer, question, otherwise string) error {
	unsure := &cli.UsageError{What: otherwise}
	if !cli.Terminal(os.Stdin) {
		return unsure
	}
	fmt.Fprintf(errs, "%s Type yes: ", question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n') // at its end there is no answer
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case said := <-answer:
		if said == "yes" {
			return nil
		}
		return unsure
	}
}
