package connect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/internal/shortlog"
)

// URLFlags returns the flags that may contain a password, with their environment variables.
func URLFlags() map[string]string {
	return map[string]string{"store": "SKALD_STORE", "broker": "SKALD_BROKER", "listen": "SKALD_LISTEN",
		"registry": "SKALD_REGISTRY"}
}

// Resolve replaces each @FILE by the URL in that file. It warns about a password in an argument.
func Resolve(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		env, is := URLFlags()[f.Name]
		given, urls := f.Value.String(), []string{f.Value.String()}
		if many, is := f.Value.(pflag.SliceValue); is {
			urls = many.GetSlice() // values of the form NAME=URL, so none of them is @FILE
			given = ""
		}
		file, inFile := strings.CutPrefix(given, "@")
		switch {
		case !is || err != nil:
		case inFile:
			var text []byte
			if text, err = cli.ReadFile(file, cli.MostURL); err != nil {
				err = &cli.NoneError{What: fmt.Sprintf("--%s: read the URL: %v", f.Name, err)}
				return
			}
			line, _, _ := strings.Cut(string(text), "\n")
			value := f.Value
			if o, is := value.(*once); is { // once would refuse the URL as a second value after @FILE
				value = o.Value
			}
			if err = value.Set(strings.TrimSpace(line)); err == nil {
				err = c.Flags().SetAnnotation(f.Name, fromFile, []string{given})
			}
		case slices.ContainsFunc(urls, endpoint.HasPassword):
			set := "set " + env + ", or "
			if strings.HasPrefix(c.CommandPath(), "skald demo") { // the demo ignores the environment
				set = ""
			}
			fmt.Fprintf(c.ErrOrStderr(),
				"skald: warning: --%s has a password: lists of processes show it to all users of this machine; %sgive --%s @FILE\n",
				f.Name, set, f.Name)
		}
	})
	return err
}

// fromFile is the annotation of a flag that was given as @FILE.
const fromFile = "skald/from-file"

// Typed formats the value of --store for a printed command, quoted for a shell. It returns @FILE if the
// user gave the flag in this form, and "$SKALD_STORE" instead of a URL with a password.
func Typed(flagValue, at string) string {
	switch {
	case strings.HasPrefix(flagValue, "@"):
		return shortlog.Shell(flagValue)
	case endpoint.HasPassword(at), strings.Contains(at, "password"):
		return `"$SKALD_STORE"`
	}
	return shortlog.Shell(at)
}

// Store returns --store as it was typed.
func Store(c *cobra.Command) string {
	f := c.Flags().Lookup("store")
	if file := f.Annotations[fromFile]; len(file) > 0 {
		return file[0]
	}
	return f.Value.String()
}
