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

// Yes asks the user at the terminal a question. It returns nil if the answer is yes. If there is another
// answer or no terminal, it returns a usage error with the text `otherwise`.
func Yes(ctx context.Context, errs io.Writer, question, otherwise string) error {
	unsure := &cli.UsageError{What: otherwise}
	if !cli.Terminal(os.Stdin) {
		return unsure
	}
	fmt.Fprintf(errs, "%s Type yes: ", question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n') // at the end of the input the answer is empty
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case answered := <-answer:
		if answered == "yes" {
			return nil
		}
		return unsure
	}
}
