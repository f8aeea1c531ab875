package connect

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// passwordCommand is the variable with a command that prints the password for PostgreSQL.
const passwordCommand = "SKALD_PASSWORD_COMMAND"

// AskPassword sets the password to the output of SKALD_PASSWORD_COMMAND, if this variable is set. pgx calls
// it before each connection, because a token of a cloud provider expires within minutes.
func AskPassword(ctx context.Context, c *pgx.ConnConfig) (err error) {
	if command := os.Getenv(passwordCommand); command != "" {
		c.Password, err = printed(ctx, command)
	}
	return err
}

// printed returns the first line that a command prints. Its errors do not contain the output of the command,
// because the output may have the password.
func printed(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	run := exec.CommandContext(ctx, "sh", "-c", command)
	run.WaitDelay = time.Second
	out, err := run.Output()
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	password := strings.TrimSpace(string(line))
	if err == nil && password == "" {
		err = errors.New("the command prints nothing")
	}
	if err != nil {
		return "", &cli.PasswordError{Variable: passwordCommand, Why: err}
	}
	return password, nil
}
