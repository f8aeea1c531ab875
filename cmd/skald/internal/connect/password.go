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

// passwordCommand is the variable that holds a command which prints the password of PostgreSQL.
const passwordCommand = "SKALD_PASSWORD_COMMAND"

// AskPassword is for BeforeConnect. Where SKALD_PASSWORD_COMMAND is set, it asks for the password again for
// each connection: the token of a cloud is valid for minutes, and a process opens connections as long as it
// lives.
func AskPassword(ctx context.Context, c *pgx.ConnConfig) (err error) {
	if command := os.Getenv(passwordCommand); command != "" {
		c.Password, err = printed(ctx, command)
	}
	return err
}

// printed is the first line that a command prints. No error has its output: it may be the password.
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
		err = errors.New("it prints nothing")
	}
	if err != nil {
		return "", &cli.PasswordError{Variable: passwordCommand, Why: err}
	}
	return password, nil
}
