// The yardsticks command compares Reprieve with other schedulers, by tests and results that these
// schedulers published. It writes docs/results/yardsticks.md.
//
//	go run ./hack/yardsticks -doc docs/results/yardsticks.md -rows peers,fgd,scale,kai -trace DIR
//
// The page has a block of text for each row. The command replaces only the blocks of the selected
// rows.
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
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	var r run
	flag.StringVar(&r.doc, "doc", "", "the page to write into; empty prints the rows")
	flag.StringVar(&r.trace, "trace", "", "directory with lists of nodes and pods of the trace openb")
	flag.IntVar(&r.seeds, "seeds", 10, "how many orders of arrival to play for each list of pods")
	rows := flag.String("rows", "", "the rows to run, separated by commas; empty for all")
	nodes := flag.String("nodes", "15000,50000,100000", "the sizes of the clusters of the row scale")
	flag.IntVar(&r.kaiNodes, "kai-nodes", kaiNodes, "the number of simulated nodes of the row kai")
	flag.StringVar(&r.binDir, "bin-dir", "bin", "directory of the binaries, for the row kai")
	flag.Parse()
	r.out, r.progress = os.Stdout, os.Stderr
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := r.setSizes(*nodes)
	if err == nil {
		err = r.write(ctx, *rows)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run has the settings of one run of the command.
type run struct {
	doc, trace string
	seeds      int
	// sizes are the numbers of nodes in the clusters of the row scale.
	sizes []int
	// kaiNodes is the number of nodes in the row kai. binDir is the directory with the binaries of
	// the playground.
	kaiNodes int
	binDir   string
	// out receives the blocks if doc is empty. progress receives a line of text for each step.
	out, progress io.Writer
}

// row is one comparison. It has a block in the page.
type row struct {
	name string
	// text runs the comparison and returns the text of its block.
	text func(ctx context.Context, r *run) (string, error)
}

// rows returns all rows in the order of the page.
func rows() []row {
	return []row{{"peers", peersText}, {"fgd", fgdText}, {"scale", scaleText}, {"kai", kaiText}}
}

// errRow is wrapped by the error for the name of an unknown row.
var errRow = errors.New("no such row")

// chosen returns the rows with the given names, which are separated by commas. An empty string
// selects all rows.
func chosen(names string) ([]row, error) {
	all := rows()
	if names == "" {
		return all, nil
	}
	var out []row
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(all, func(r row) bool { return r.name == strings.TrimSpace(name) })
		if at < 0 {
			return nil, fmt.Errorf("%w: %q", errRow, name)
		}
		out = append(out, all[at])
	}
	return out, nil
}

// write runs the named rows, one after the other, and writes the block of each. If a row fails, the
// blocks of earlier rows stay written.
func (r *run) write(ctx context.Context, names string) error {
	some, err := chosen(names)
	if err != nil {
		return err
	}
	for i := range some {
		fmt.Fprintf(r.progress, "row %s\n", some[i].name)
		text, err := some[i].text(ctx, r)
		if err != nil {
			return fmt.Errorf("row %s: %w", some[i].name, err)
		}
		if err := r.put(some[i].name, text); err != nil {
			return err
		}
	}
	return nil
}

// put replaces the block of a row in the page. If r.doc is empty, it prints the block instead.
func (r *run) put(name, text string) error {
	if r.doc == "" {
		_, err := fmt.Fprintln(r.out, text)
		return err
	}
	old, err := os.ReadFile(r.doc)
	if err != nil {
		return err
	}
	page, err := replaced(string(old), name, text)
	if err != nil {
		return fmt.Errorf("%s: %w", r.doc, err)
	}
	return os.WriteFile(r.doc, []byte(page), 0o644)
}

// replaced returns the page with a new text for the block of a row.
func replaced(page, name, text string) (string, error) {
	begin := fmt.Sprintf("<!-- make yardsticks ROWS=%s writes from here -->\n", name)
	end := fmt.Sprintf("<!-- the row %s ends here -->\n", name)
	before, rest, opened := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		return "", fmt.Errorf("the page has no lines %q and %q to write between", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + "\n" + strings.TrimSpace(text) + "\n\n" + end + after, nil
}
