// Command simulation runs kubectl reprieve simulate for a trace, and for a small trace in its
// testdata: the "small day". It writes the results and a plot into a page of the documentation.
// With the flag for checks, it only checks that the page is up to date.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/reprieve-dev/reprieve/cmd/kubectl-reprieve/app"
	"github.com/reprieve-dev/reprieve/internal/simulation"
)

func main() {
	var r run
	flag.StringVar(&r.trace, "trace", "", "directory of the trace openb; empty for the small day alone")
	flag.StringVar(&r.doc, "doc", "", "the page to write into")
	args := flag.String("args", "", "more flags of simulate for the trace")
	flag.StringVar(&r.day, "day", "hack/simulation/testdata/day", "directory of the small day")
	flag.BoolVar(&r.check, "check", false, "write nothing, and fail if the page or the plot differs")
	lists := flag.Int("lists", 0, "play every list of pods in the trace with this many seeds instead, and write the table of losses")
	flag.IntVar(&r.sample.every, "every", 0, "with -lists, keep every n-th pod or gang as a sample; 0 for all")
	flag.IntVar(&r.sample.nodes, "nodes", 0, "with -lists, the number of nodes; 0 for all")
	flag.Parse()
	r.args = strings.Fields(*args)
	write := r.write
	if *lists > 0 {
		write = func(ctx context.Context) error { return r.writeLists(ctx, *lists) }
	}
	if err := write(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run has the flags of one run of the command.
type run struct {
	trace, day, doc string
	args            []string
	check           bool
	sample          sample
}

// block is a part of the page that the command writes: the text between the lines begin and end.
type block struct{ begin, end string }

// wholeTrace returns the block with the results of the trace and the plot.
func wholeTrace() block {
	return block{"<!-- make simulation writes from here -->\n", "<!-- to here -->\n"}
}

// smallDay returns the block with the results of the small day.
func smallDay() block {
	return block{"<!-- make simulation writes the small day from here -->\n", "<!-- the small day ends here -->\n"}
}

// errDiffers is returned if the page differs from the output of the program.
var errDiffers = errors.New("the page is not what the program prints; run make simulation and commit the page and its plot")

// dayArgs returns the flags of kubectl reprieve simulate for the small day. With the load 1.2, the
// work requests more GPU time than the cluster has, so queues compete.
func dayArgs() []string { return []string{"--load", "1.2", "--seed", "1"} }

// in finds the block in a page. It returns the text before the block, the text of the block, and
// the text after the block.
func (b block) in(page string) (before, text, after string, err error) {
	before, rest, found := strings.Cut(page, b.begin)
	text, after, closed := strings.Cut(rest, b.end)
	if !found || !closed {
		return "", "", "", fmt.Errorf("the page has no lines %q and %q to write between", strings.TrimSpace(b.begin), strings.TrimSpace(b.end))
	}
	return before, text, after, nil
}

// put returns the page with a new text of the block.
func (b block) put(page, text string) (string, error) {
	before, _, after, err := b.in(page)
	return before + b.begin + text + b.end + after, err
}

// write simulates the trace and the small day, and writes the page and its plot. In a check, it
// compares the files instead of writing them.
func (r *run) write(ctx context.Context) error {
	old, err := os.ReadFile(r.doc)
	if err != nil {
		return err
	}
	table, err := ask(ctx, r.day, dayArgs())
	if err != nil {
		return err
	}
	page, err := smallDay().put(string(old), console("hack/simulation/testdata/day", dayArgs(), table))
	if err != nil {
		return fmt.Errorf("%s: %w", r.doc, err)
	}
	if r.trace != "" {
		if page, err = r.playTrace(ctx, page); err != nil {
			return err
		}
	}
	return r.put(r.doc, []byte(page))
}

// playTrace simulates the trace. It writes the plot, and returns the page with the new results.
func (r *run) playTrace(ctx context.Context, page string) (string, error) {
	dir, err := os.MkdirTemp("", "simulation")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	drawn := filepath.Join(dir, "plot.svg")
	table, err := ask(ctx, r.trace, append([]string{"--plot", drawn}, r.args...))
	if err != nil {
		return "", err
	}
	picture := strings.TrimSuffix(r.doc, filepath.Ext(r.doc)) + ".svg"
	text := console("openb", r.args, table) + fmt.Sprintf("![How long work waited, by policy and priority](%s)\n\n", filepath.Base(picture))
	if page, err = wholeTrace().put(page, text); err != nil {
		return "", fmt.Errorf("%s: %w", r.doc, err)
	}
	plot, err := os.ReadFile(drawn)
	if err != nil {
		return "", err
	}
	return page, r.put(picture, plot)
}

// put writes a file. In a check, it compares the file with the content instead, and returns
// errDiffers if they differ.
func (r *run) put(name string, content []byte) error {
	if !r.check {
		return os.WriteFile(name, content, 0o644)
	}
	old, err := os.ReadFile(name)
	if err == nil && !bytes.Equal(old, content) {
		err = fmt.Errorf("%s: %w:\n%s", name, errDiffers, firstDifference(string(old), string(content)))
	}
	return err
}

// firstDifference returns the number of the first line that differs, with both versions of the
// line.
func firstDifference(old, now string) string {
	was, is := strings.Split(old, "\n"), strings.Split(now, "\n")
	for i := range max(len(was), len(is)) {
		var a, b string
		if i < len(was) {
			a = was[i]
		}
		if i < len(is) {
			b = is[i]
		}
		if a != b {
			return fmt.Sprintf("line %d\n- %s\n+ %s", i+1, a, b)
		}
	}
	return ""
}

// console returns a Markdown code block with a command and its output.
func console(trace string, args []string, table string) string {
	return fmt.Sprintf("\n```console\n$ kubectl reprieve simulate --trace %s %s\n%s```\n\n", trace, strings.Join(args, " "), table)
}

// ask runs kubectl reprieve simulate with the arguments and returns its output.
func ask(ctx context.Context, trace string, args []string) (string, error) {
	var out, errOut bytes.Buffer
	code := app.Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut},
		append([]string{"simulate", "--trace", trace}, args...), func(string) (string, bool) { return "", false })
	if code != 0 {
		return "", fmt.Errorf("simulate ends with %d: %s", code, strings.TrimSpace(errOut.String()))
	}
	return out.String(), nil
}

// resultsOf runs kubectl reprieve simulate with the arguments and returns its parsed JSON output.
func resultsOf(ctx context.Context, trace string, args []string) ([]*simulation.Result, error) {
	text, err := ask(ctx, trace, append(slices.Clone(args), "-o", "json"))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Results []*simulation.Result `json:"results"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, fmt.Errorf("read the answer of simulate: %w", err)
	}
	return answer.Results, nil
}
