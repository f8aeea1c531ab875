package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each command line in the docs names a command and flags that there are.
func TestCommandsOfTheDocs(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	inner, err := filepath.Glob("../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = slices.DeleteFunc(append(pages, inner...), // generated: TestCommandReference
		func(page string) bool { return filepath.Base(page) == "commands.md" })
	checked := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandLines(string(text)) {
			checked++
			var out, errs bytes.Buffer
			flags := slices.IndexFunc(append(line, "-"),
				func(word string) bool { return strings.HasPrefix(word, "-") })
			// a flag without its value is no fault of prose
			run(t.Context(), slices.Insert(slices.Clone(line), flags, "--help"), &out, &errs)
			if said := errs.String(); strings.Contains(said, "unknown") {
				t.Errorf("%s: skald %s: %s", filepath.Base(page), strings.Join(line, " "), said)
			} else if path, ok := unknownCommand(line, out.String()); ok {
				t.Errorf("%s: skald %s: %s has no such command", filepath.Base(page),
					strings.Join(line, " "), path)
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d command lines were found: is the pattern still right?", checked)
	}
}

// commandLines returns the arguments of each `skald …` in a page: in inline code, and at the start of a line
// of a block.
func commandLines(page string) (all [][]string) {
	inline := regexp.MustCompile("`skald ([^`\n]+)`")
	quoted := regexp.MustCompile(`"[^"]*"|'[^']*'`)
	block := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			block = !block
			continue
		}
		var found []string
		if rest, ok := strings.CutPrefix(line, "skald "); ok && block {
			found = []string{rest}
		} else if !block {
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				found = append(found, m[1])
			}
		}
		for _, text := range found {
			text = quoted.ReplaceAllString(text, "X")
			text = strings.NewReplacer("[", " ", "]", " ").Replace(text)
			for _, end := range []string{" #", " | ", ";", " > ", " && "} {
				text, _, _ = strings.Cut(text, end)
			}
			all = append(all, arguments(text))
		}
	}
	return all
}

// arguments splits a command line. Of alternatives, as in "pause|resume", it takes the first.
func arguments(text string) (args []string) {
	for _, word := range strings.Fields(text) {
		word, _, _ = strings.Cut(word, "|")
		if word = strings.Trim(word, "…,"); word != "" {
			args = append(args, word)
		}
	}
	return args
}

// unknownCommand tells whether help is that of a group though line names a command in it.
func unknownCommand(line []string, help string) (path string, unknown bool) {
	m := regexp.MustCompile(`(?m)^  (skald[a-z ]*) \[command\]$`).FindStringSubmatch(help)
	if m == nil {
		return "", false
	}
	at := len(strings.Fields(m[1])) - 1
	return m[1], at < len(line) && !strings.HasPrefix(line[at], "-")
}
