package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// command is a subcommand of the release command. flags defines its flags.
type command struct {
	name  string
	flags func(*flag.FlagSet, *settings)
	run   func(context.Context, io.Writer, *settings) error
}

func commands() []command {
	return []command{
		{"build", func(set *flag.FlagSet, s *settings) {
			s.selection(set)
			set.StringVar(&s.binaries, "binaries", "", "the directory for the programs")
			set.StringVar(&s.linker, "ldflags", "", "the linker's flags for the commands of this repository")
			set.StringVar(&s.partLinker, "part-ldflags", "", "the linker's flags for the parts of a control plane")
		}, build},
		{"pack", func(set *flag.FlagSet, s *settings) {
			s.identity(set)
			s.selection(set)
			set.StringVar(&s.binaries, "binaries", "", "the directory of the programs")
			set.StringVar(&s.out, "out", "", "the directory for the release; one that is there is replaced")
		}, packAll},
		{"image", func(set *flag.FlagSet, s *settings) {
			s.identity(set)
			set.StringVar(&s.only, "only", product.Scheduler, "whose image it is")
			set.StringVar(&s.binary, "binary", "", "the program")
			set.StringVar(&s.out, "out", "", "the directory for the layout, which is a new one")
		}, packImage},
		{"chart", func(set *flag.FlagSet, s *settings) {
			s.identity(set)
			set.StringVar(&s.out, "out", "", "the file to write")
		}, packChart},
		{"notes", func(*flag.FlagSet, *settings) {}, notes},
		{"changelog", func(set *flag.FlagSet, s *settings) {
			set.StringVar(&s.day, "day", "", "the day of the release, such as 2026-12-01; today by default")
		}, gather},
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	all := commands()
	i := -1
	if len(args) > 0 {
		i = slices.IndexFunc(all, func(c command) bool { return c.name == args[0] })
	}
	if i < 0 {
		return errors.New("want a command: build, pack, image, chart, notes or changelog")
	}
	var s settings
	set := flag.NewFlagSet("release "+all[i].name, flag.ContinueOnError)
	set.StringVar(&s.root, "root", "../..", "the repository")
	set.StringVar(&s.version, "version", "", "the version, such as v0.2.0")
	all[i].flags(set, &s)
	if err := set.Parse(args[1:]); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("%q is no flag", set.Arg(0))
	}
	return all[i].run(ctx, out, &s)
}
