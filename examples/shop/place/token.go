package place

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// passwordCommand is the variable that holds a command which prints the password of PostgreSQL.
const passwordCommand = "SKALD_PASSWORD_COMMAND"

// A PasswordError says that the command which prints the password did not.
type PasswordError struct{ Why error }

func (e *PasswordError) Error() string {
	return fmt.Sprintf("ask for the password: %v: see what %s does when you run it by hand", e.Why, passwordCommand)
}

func (e *PasswordError) Unwrap() error { return e.Why }

// AskPassword is for BeforeConnect: where SKALD_PASSWORD_COMMAND says how, it asks for a password anew for each
// connection. A token of a cloud's lasts for minutes, and connections are made for as long as the process lives.
func AskPassword(ctx context.Context, c *pgx.ConnConfig) (err error) {
	if command := os.Getenv(passwordCommand); command != "" {
		c.Password, err = printed(ctx, command)
	}
	return err
}

// Connect is one connection as cfg's pool would make it.
func Connect(ctx context.Context, cfg *pgxpool.Config) (*pgx.Conn, error) {
	c := cfg.ConnConfig.Copy()
	if err := AskPassword(ctx, c); err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, c)
}

// printed is the first line that a command prints. What it prints goes into no error: it may be the password.
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
		return "", &PasswordError{err}
	}
	return password, nil
}
