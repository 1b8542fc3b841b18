// The simulation command plays a trace with kubectl reprieve simulate and writes its answer, as a
// table and as a plot, into a page of the documentation.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/reprieve-dev/reprieve/cmd/kubectl-reprieve/app"
	"github.com/reprieve-dev/reprieve/internal/simulation"
	"github.com/reprieve-dev/reprieve/internal/simulation/plot"
)

func main() {
	trace := flag.String("trace", "", "directory of the trace openb")
	doc := flag.String("doc", "", "the page to write into")
	args := flag.String("args", "", "flags of simulate besides")
	flag.Parse()
	if err := write(context.Background(), *trace, *doc, strings.Fields(*args)); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// answer is what is read of the command's answer.
type answer struct {
	Results []*simulation.Result `json:"results"`
}

// The block of the page that is written: all from begin to end.
const (
	begin = "<!-- make simulation writes from here -->\n"
	end   = "<!-- to here -->\n"
)

// write plays the trace and writes the page, and its plot beside it.
func write(ctx context.Context, trace, doc string, args []string) error {
	page, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no lines %q and %q to write between", doc, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	table, err := ask(ctx, trace, args)
	if err != nil {
		return err
	}
	text, err := ask(ctx, trace, append(args, "-o", "json"))
	if err != nil {
		return err
	}
	var a answer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	picture := strings.TrimSuffix(doc, filepath.Ext(doc)) + ".svg"
	if err := os.WriteFile(picture, []byte(plot.Draw(a.Results)), 0o644); err != nil {
		return err
	}
	block := fmt.Sprintf("\n```console\n$ kubectl reprieve simulate --trace openb %s\n%s```\n\n![How long work waited, by policy and priority](%s)\n\n",
		strings.Join(args, " "), table, filepath.Base(picture))
	return os.WriteFile(doc, []byte(before+begin+block+end+after), 0o644)
}

// ask runs the command and returns what it answers.
func ask(ctx context.Context, trace string, args []string) (string, error) {
	var out, errOut bytes.Buffer
	code := app.Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut},
		append([]string{"simulate", "--trace", trace}, args...), func(string) (string, bool) { return "", false })
	if code != 0 {
		return "", fmt.Errorf("simulate ends with %d: %s", code, strings.TrimSpace(errOut.String()))
	}
	return out.String(), nil
}
