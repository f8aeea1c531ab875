package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/commands.md")

// tree returns the root command with all subcommands.
func tree() *cobra.Command {
	root := &cobra.Command{Use: "skald", Long: about}
	build(root, io.Discard, io.Discard)
	return root
}

// each calls f for c and each command below it, in the order of the help.
func each(c *cobra.Command, f func(c *cobra.Command)) {
	f(c)
	for _, below := range c.Commands() {
		each(below, f)
	}
}

// words splits a command line as a shell does, up to a redirection or a pipe.
func words(line string) (out []string) {
	line = regexp.MustCompile(` [>|] .*`).ReplaceAllString(line, "")
	for _, w := range regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`).FindAllString(line, -1) {
		out = append(out, strings.Trim(w, `"'`))
	}
	return out
}

// Each command without subcommands has one to three examples, and each example has valid flags and arguments.
func TestExamplesOfTheHelp(t *testing.T) {
	seen := 0
	each(tree(), func(c *cobra.Command) {
		if c.HasSubCommands() && c.Name() != "demo" || c.IsAdditionalHelpTopicCommand() {
			return
		}
		lines := strings.Split(c.Example, "\n")
		if c.Example == "" || len(lines) > 3 {
			t.Errorf("%s has %q as examples", c.CommandPath(), c.Example)
			return
		}
		for _, line := range lines {
			seen++
			root := tree() // a flag may be given once
			found, rest, err := root.Find(words(line)[1:])
			if err != nil || found.CommandPath() != c.CommandPath() {
				t.Errorf("%q is %s, not %s: %v", line, found.CommandPath(), c.CommandPath(), err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
	})
	if all := strings.Count(examples, "\n") + 1; seen != all {
		t.Errorf("%d of %d examples are in the help", seen, all)
	}
}

// docs/commands.md is the help of all commands. The flag -update writes it.
func TestCommandReference(t *testing.T) {
	const path = "../../docs/commands.md"
	want := reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s is not the help of this build: go test ./cmd/skald -run TestCommandReference -update: %v",
			path, err)
	}
}

// reference renders the help of all commands as Markdown.
func reference() string {
	root, common := tree(), map[string]int{}
	each(root, func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { common[flagText(f)]++ })
	})
	var b strings.Builder
	b.WriteString("# Commands\n\nThe help of all commands. `skald COMMAND --help` prints the same.\n\n" +
		"## Flags of many commands\n\n")
	for _, text := range slices.Sorted(maps.Keys(common)) {
		if common[text] >= often {
			b.WriteString("- " + text + "\n")
		}
	}
	each(root, func(c *cobra.Command) {
		switch {
		case c == root || c.Name() == "help":
		case c.HasParent() && c.Parent() == root:
			b.WriteString("\n## " + title(c) + "\n")
			section(&b, c, common)
		default:
			b.WriteString("\n### " + title(c) + "\n")
			section(&b, c, common)
		}
	})
	return b.String()
}

// often is the number of commands from which on a flag is listed once for all of them.
const often = 8

func title(c *cobra.Command) string {
	if c.IsAdditionalHelpTopicCommand() {
		return c.Short
	}
	return c.CommandPath()
}

// section writes the help of one command.
func section(b *strings.Builder, c *cobra.Command, common map[string]int) {
	for _, part := range strings.Split(c.Long, "\n\n") {
		switch {
		case part == "":
			part = c.Short + "."
			fallthrough
		case !strings.Contains("\n"+part, "\n  "):
			fmt.Fprintf(b, "\n%s\n", markdown(part))
		default: // columns
			fmt.Fprintf(b, "\n```text\n%s\n```\n", part)
		}
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\n```\n%s\n```\n", strings.ReplaceAll("\n"+c.Example, "\n  ", "\n")[1:])
	}
	if !c.Runnable() || c.HasSubCommands() && c.Name() != "demo" {
		return
	}
	fmt.Fprintf(b, "\nUsage: `%s`\n", c.UseLine())
	var many []string
	first := "\n"
	c.Flags().VisitAll(func(f *pflag.Flag) {
		switch text := flagText(f); {
		case f.Name == "help":
		case common[text] >= often:
			many = append(many, "`--"+f.Name+"`")
		default:
			b.WriteString(first + "- " + text + "\n")
			first = ""
		}
	})
	if len(many) > 0 {
		fmt.Fprintf(b, "\nAlso %s.\n", strings.Join(many, ", "))
	}
}

// flagText renders a flag as it is in the help.
func flagText(f *pflag.Flag) string {
	name, usage := pflag.UnquoteUsage(f)
	text := strings.TrimSpace("--" + f.Name + " " + name)
	if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" && f.DefValue != "[]" {
		usage += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	return fmt.Sprintf("`%s`: %s", text, markdown(usage))
}

// markdown escapes the characters of a text that Markdown reads as markup.
func markdown(text string) string {
	return strings.NewReplacer("<", "\\<", "*", "\\*", "[", "\\[").Replace(text)
}
