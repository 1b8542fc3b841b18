package main

import (
	"context"
	"embed"
	"encoding/csv"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/openb"
)

//go:embed testdata/fgd.csv
var published embed.FS

const (
	// milliPerGPU is the amount of one GPU.
	milliPerGPU = 1000
	// wholeOfTotal is how much the arriving pods request, as a part of all GPUs, when the
	// allocation is measured.
	wholeOfTotal = 1.0
)

// allocations are percentages of all GPUs, by policy.
type allocations struct{ random, bestFit, fgd string }

// publishedAllocations returns the allocations that the authors of FGD publish, by list.
func publishedAllocations() (map[string]allocations, error) {
	f, err := published.Open("testdata/fgd.csv")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	out := make(map[string]allocations)
	for _, l := range lines[1:] {
		out[l[0]] = allocations{random: l[1], bestFit: l[2], fgd: l[3]}
	}
	return out, nil
}

// errTrace is returned if the row fgd has no lists to play.
var errTrace = errors.New("the row needs a directory of lists: -trace DIR, or TRACE=DIR for make")

// fgdText plays the lists of pods in the trace's directory and compares the allocations.
func fgdText(ctx context.Context, r *run) (string, error) {
	theirs, err := publishedAllocations()
	if err != nil {
		return "", err
	}
	lists, err := filepath.Glob(filepath.Join(r.trace, "openb_pod_list_*.csv"))
	if err != nil {
		return "", err
	}
	if r.trace == "" || len(lists) == 0 {
		return "", errTrace
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Means of %d orders of arrival.\n\n", r.seeds)
	b.WriteString("| List | FGD, published | BestFit, published | Random, published | Pods left out: shares of a GPU | " +
		"Best fit, here | Random, here | Reprieve | Reprieve − best fit, here |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	var unsupported []string
	for _, list := range lists {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(list), "openb_pod_list_"), ".csv")
		f, err := newFilling(filepath.Join(r.trace, openb.NodeList), list)
		if err != nil {
			return "", err
		}
		if f.gpuPods == 0 || f.models > 0 {
			unsupported = append(unsupported, name)
			continue
		}
		pub, ok := theirs[name]
		if !ok {
			pub = allocations{"–", "–", "–"}
		}
		ours, best, random, err := f.means(ctx, r, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| %s | %s %% | %s %% | %s %% | %d of %d | %.2f %% | %.2f %% | %.2f %% | %+.2f |\n",
			name, pub.fgd, pub.bestFit, pub.random, f.shares, f.shares+len(f.pods), best, random, ours, ours-best)
	}
	if len(unsupported) > 0 {
		fmt.Fprintf(&b, "\nNot supported, because all pods share GPUs or name a model of GPU:\n%s.\n", strings.Join(unsupported, ", "))
	}
	return strings.ReplaceAll(b.String(), "– %", "–"), nil
}

// filling fills the nodes of a trace with its pods, and no pod ends.
type filling struct {
	nodes []core.Amounts
	pods  []core.Amounts
	// total is the sum of all GPUs. gpuPods counts the pods with whole GPUs, and models the pods
	// that name a model of GPU. shares counts the pods with a share of a GPU. pods lacks these.
	total                   int64
	gpuPods, shares, models int
}

// gpus is the index of GPUs in amounts.
const gpus = 2

// newFilling reads a list of nodes and a list of pods. Some lists have no times and no QoS, so
// package openb cannot read them.
func newFilling(nodes, pods string) (*filling, error) {
	f := &filling{}
	err := eachLine(nodes, func(l *line) {
		n := core.Amounts{l.number("cpu_milli"), l.number("memory_mib"), milliPerGPU * l.number("gpu")}
		f.nodes = append(f.nodes, n)
		f.total += n[gpus]
	})
	if err != nil {
		return nil, err
	}
	err = eachLine(pods, func(l *line) {
		want := l.number("num_gpu")
		switch {
		case want > 0 && l.number("gpu_milli") < milliPerGPU:
			f.shares++
			return
		case want > 0:
			f.gpuPods++
		}
		if l.of["gpu_spec"] != "" {
			f.models++
		}
		f.pods = append(f.pods, core.Amounts{l.number("cpu_milli"), l.number("memory_mib"), milliPerGPU * want})
	})
	return f, err
}

// line is a line of a list, by column.
type line struct {
	of  map[string]string
	err error
}

// number returns a column as a number. The first error of a line is kept.
func (l *line) number(column string) int64 {
	n, err := strconv.ParseInt(l.of[column], 10, 64)
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("column %s: %w", column, err)
	}
	return n
}

// eachLine calls a function for each line of a list with a line of columns.
func eachLine(name string, do func(*line)) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil || len(lines) == 0 {
		return fmt.Errorf("read %s: %d lines: %w", name, len(lines), err)
	}
	for at, fields := range lines[1:] {
		l := &line{of: make(map[string]string, len(fields))}
		for i, field := range fields {
			l.of[lines[0][i]] = field
		}
		if do(l); l.err != nil {
			return fmt.Errorf("read %s, line %d: %w", name, at+2, l.err)
		}
	}
	return nil
}

// arrivals returns pods in a random order until they request all GPUs. Pods of the list arrive
// again, drawn at random, if the list requests less.
func (f *filling) arrivals(random *rand.Rand) []core.Amounts {
	order, sum := random.Perm(len(f.pods)), int64(0)
	var out []core.Amounts
	for i := 0; float64(sum) < wholeOfTotal*float64(f.total); i++ {
		at := random.IntN(len(f.pods))
		if i < len(order) {
			at = order[i]
		}
		out = append(out, f.pods[at])
		sum += f.pods[at][gpus]
	}
	return out
}

// means plays some orders of arrival and returns the mean allocations in percent.
func (f *filling) means(ctx context.Context, r *run, name string) (ours, best, random float64, err error) {
	for seed := range r.seeds {
		if err := context.Cause(ctx); err != nil {
			return 0, 0, 0, err
		}
		pods := f.arrivals(rand.New(rand.NewPCG(uint64(seed+1), 11)))
		decided, err := f.byCore(pods)
		if err != nil {
			return 0, 0, 0, err
		}
		draw := rand.New(rand.NewPCG(uint64(seed+1), 13))
		fit := f.fill(pods, f.leastLeft)
		drawn := f.fill(pods, func(_ []core.Amounts, fitting []int, _ core.Amounts) int { return fitting[draw.IntN(len(fitting))] })
		fmt.Fprintf(r.progress, "%s, order %d: Reprieve %.2f, best fit %.2f, random %.2f\n", name, seed+1, decided, fit, drawn)
		ours, best, random = ours+decided, best+fit, random+drawn
	}
	n := float64(max(r.seeds, 1))
	return ours / n, best / n, random / n, nil
}
