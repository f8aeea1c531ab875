package main

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The mail server is a program of its own, in all its moods: each order that has ended has its mail in the
// mailbox, once, and the auditor sees a mail that is missing, and one that nobody has asked for.
func TestMailServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop")
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	over := make(chan int, 1)
	go func() {
		over <- run(ctx, []string{"mail", "--moods", "wild", "--store", "sqlite:" + dir, "--listen",
			"127.0.0.1:0"}, write, io.Discard)
		_ = write.Close()
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	at, end := started(t, "sqlite:"+dir, "--mail",
		strings.TrimPrefix(strings.TrimSpace(line), "mail: smtp://"))
	if code, out, errs := shop(t, "load", "--url", at, "--orders", "6"); code != 0 {
		t.Fatalf("load: exit %d\n%s%s", code, out, errs)
	}
	settle(t, "sqlite:"+dir)
	if code := end(); code != 0 {
		t.Errorf("serve: exit %d", code)
	}
	stop()
	if code := <-over; code != 0 {
		t.Errorf("mail: exit %d", code)
	}
	audit := func() string {
		_, out, _ := shop(t, "audit", "--store", "sqlite:"+dir)
		return out
	}
	out := audit()
	said := regexp.MustCompile(
		`mailed_once +ok .* (\d+) mails recorded, (\d+) delivered`).FindStringSubmatch(out)
	if said == nil || said[1] == "0" || said[1] != said[2] {
		t.Errorf("audit:\n%s", out)
	}
	const broken = "mailed_once       BROKEN"
	breakIt(t, filepath.Join(dir, "mail.db"),
		"INSERT INTO mailbox SELECT 'again-' || message_id, recipient, subject, 1, at FROM mailbox LIMIT 1")
	if out := audit(); !strings.Contains(out, broken) ||
		!strings.Contains(out, "1 mails that belong to no order") {
		t.Errorf("audit of a mail that came twice:\n%s", out)
	}
	breakIt(t, filepath.Join(dir, "mail.db"),
		"DELETE FROM mailbox WHERE message_id IN (SELECT message_id FROM mailbox WHERE message_id LIKE 'order-%' LIMIT 1) OR message_id LIKE 'again-%'")
	if out := audit(); !strings.Contains(out, broken) ||
		!strings.Contains(out, "has delivered its mail: false") {
		t.Errorf("audit of a mail that is missing:\n%s", out)
	}
}
