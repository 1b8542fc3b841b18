// Command prose checks the language of comments, messages and pages.
//
//	go run ./hack/prose check
//	go run ./hack/prose list PATH...
//	go run ./hack/prose baseline
//	go run ./hack/prose numbers PATH...
//	go run ./hack/prose commits
//	go run ./hack/prose sample -seed N PATH...
//
// The tasks are:
//
//   - check compares the findings with the baseline.
//   - list prints all findings below the paths.
//   - baseline lowers the counts in the baseline to the findings of the work tree.
//   - numbers prints how often some constructions occur per 1,000 words.
//   - commits checks the subjects of the commits since a base commit.
//   - sample prints comments and first screens of pages, drawn at random, for a person to read.
//
// docs/writing.md explains the rules, and hack/tools/vale/styles defines them. Vale applies the
// rules to the text that this command extracts: comments and messages of Go files, and paragraphs
// of pages. The command does not extract tests, generated files, licence headers, directives, code
// and tables.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// usage is printed if the command line names no known task.
const usage = "usage: prose check|list|baseline|numbers|commits|sample [flags] [paths]"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs the task that args names, and writes its results to out.
func run(ctx context.Context, out io.Writer, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet("prose "+args[0], flag.ContinueOnError)
	base := flags.String("base", "", "commit to compare with (default: where the branch left main)")
	moved := flags.Bool("moved", false, "baseline: accept that counts rise in one package if they fall as much in others")
	seed := flags.Uint64("seed", 1, "sample: the seed of the random choice")
	comments := flags.Int("comments", 40, "sample: the number of comments")
	pages := flags.Int("pages", 20, "sample: the number of pages")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "check":
		return check(ctx, out, *base)
	case "list":
		return list(ctx, out, flags.Args())
	case "baseline":
		return tighten(ctx, out, *moved)
	case "numbers":
		return numbers(out, flags.Args())
	case "commits":
		return commits(ctx, out, *base)
	case "sample":
		return sample(out, *seed, *comments, *pages, flags.Args())
	default:
		return errors.New(usage)
	}
}

// check returns an error if a package or page has more findings of a rule than the baseline allows.
// It prints these findings.
func check(ctx context.Context, out io.Writer, base string) error {
	granted, err := readBaseline(baselineFile)
	if err != nil {
		return err
	}
	found, err := findings(ctx, ".")
	if err != nil {
		return err
	}
	above := risen(granted, countsOf(found))
	if len(above) == 0 {
		return nil
	}
	changed := changedLines(ctx, base)
	for _, rise := range above {
		listSome(out, changed.prefer(rise.of(found)))
		fmt.Fprintf(out, "%s: %d findings of %s, the baseline grants %d\n", rise.unit, rise.count, rise.rule, rise.granted)
	}
	return fmt.Errorf("the language of %d packages or pages got worse; docs/writing.md has the rules", unitsOf(above))
}

// mostListed is the number of findings that check prints for one rule of a package or page.
const mostListed = 20

// listSome prints the first mostListed findings, and the number of further findings.
func listSome(out io.Writer, found []finding) {
	for i, f := range found {
		if i == mostListed {
			fmt.Fprintf(out, "… and %d more; make prose-list IN=%s lists all\n", len(found)-i, unitOf(f.file))
			return
		}
		fmt.Fprintln(out, f)
	}
}

// list prints all findings in the files below the paths.
func list(ctx context.Context, out io.Writer, paths []string) error {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	found, err := findings(ctx, paths...)
	if err != nil {
		return err
	}
	for _, f := range found {
		fmt.Fprintln(out, f)
	}
	fmt.Fprintf(out, "%d findings\n", len(found))
	return nil
}

// tighten lowers the counts in the baseline to the findings of the work tree. It returns an error
// if a count exceeds the baseline.
func tighten(ctx context.Context, out io.Writer, moved bool) error {
	granted, err := readBaseline(baselineFile)
	if errors.Is(err, os.ErrNotExist) {
		granted, err = nil, nil
	}
	if err != nil {
		return err
	}
	found, err := findings(ctx, ".")
	if err != nil {
		return err
	}
	now := countsOf(found)
	if granted == nil {
		return writeBaseline(baselineFile, now)
	}
	refused := refuseRise(out, granted, now, moved)
	if refused != nil || !moved {
		now = lower(granted, now)
	}
	return errors.Join(writeBaseline(baselineFile, now), refused)
}
