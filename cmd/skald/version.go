package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func versionCommand(out io.Writer) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Print the version of this build", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if asJSON {
				return json.NewEncoder(out).Encode(b)
			}
			_, err := fmt.Fprintln(out, b)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one object and nothing else")
	return c
}

// A build is what --json prints: its names are stable.
type build struct {
	Version string `json:"version"` // (devel): of a checkout
	Commit  string `json:"commit"`  // "": the Go tool noted none
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// thisBuild is what the Go tool noted in this binary.
func thisBuild() build {
	b := build{Version: "(unknown)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				b.Commit = s.Value[:12]
			}
		}
	}
	return b
}

func (b build) String() string {
	return strings.Join(strings.Fields(fmt.Sprintf("skald %s %s %s %s/%s", b.Version, b.Commit, b.Go, b.OS, b.Arch)), " ")
}
